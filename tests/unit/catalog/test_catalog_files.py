"""Slug files of every kind of wrong, beside a good one that must stay visible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cockpit.catalog.load import RESERVED_ENV, RESERVED_FLAGS, Catalog, Problem, load, read_slug
from cockpit.errors import CockpitError
from cockpit.strict_yaml import MAX_BYTES

GOOD = """\
name: vllm/good
model: Good
weights:
  repo: owner/good
  format: bf16
max_model_len: 4096
"""


def other(name: str, more: str = "") -> str:
    return GOOD.replace("vllm/good", name) + more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(GOOD)
    return tmp_path


def names(catalog: Catalog) -> list[str]:
    return [entry.slug.name for entry in catalog.entries]


def problem_of(folder: Path, data: str | bytes) -> Problem:
    """What the catalog says of one bad file, the good one being there all the same."""
    (folder / "bad.yaml").write_bytes(data.encode() if isinstance(data, str) else data)
    catalog = load(folder)
    assert names(catalog) == ["vllm/good"]
    (problem,) = catalog.problems
    assert problem.file == folder / "bad.yaml"
    assert str(problem.file) in problem.title
    assert problem.fix
    return problem


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (other("vllm/bad", "max_modle_len: 5\n"), 7, "max_modle_len: there is no such key"),
        (other("vllm/bad").replace("  format", "  formatt"), 5, "weights.formatt: there is no such key"),
        (other("vllm/bad", "model: Bad\n"), 7, "the key 'model' stands twice"),
        (other("vllm/bad", "tensor_parallel: two\n"), 7, "tensor_parallel: expected `int`"),
        (other("vllm/bad", "tensor_parallel: 100000000000\n"), 7, "tensor_parallel: expected `int` <= 64"),
        (other("vllm/bad", "tensor_parallel: 0\n"), 7, "tensor_parallel: expected `int` >= 1"),
        (other("vllm/bad", "int8: true\n"), 7, "int8: "),
        (other("vllm/bad", "int8: yes\n"), 7, "int8: invalid enum value 'yes'"),
        (other("vllm/bad", "platform: rocm\n"), 7, "platform: invalid enum value"),
        (other("vllm/bad", "gpu_memory_utilization: 92\n"), 7, "gpu_memory_utilization: expected `float` <= 1"),
        (other("vllm/bad", "speculative: {method: mtp, tokens: 0}\n"), 7, "speculative.tokens: expected `int` >= 1"),
        (other("vllm/bad", "env:\n  A: b\n  OMP: 1\n"), 9, "env.OMP: expected `str`, got `int` (put"),
        (other("vllm/bad", "flags:\n  seed: 1\n  a: {b: null}\n"), 9, "flags.a: expected `bool"),
        (other("vllm/bad", "flags:\n  seed: 1\n  b: [1, null]\n"), 9, "flags.b: expected `int"),
        (other("vllm/bad", "env: !!python/name:os.system {}\n"), 7, "tags (!name) are not allowed"),
        (other("vllm/bad").replace("Good", "&m Good") + "description: *m\n", 7, "aliases (*name) are not allowed"),
        (other("vllm/bad").replace("4096", "15"), 6, "max_model_len: expected `int` >= 16"),
        (other("vllm/bad").replace("owner/good", "--trust-remote-code/x"), 4, "weights.repo: "),
        (other("vllm/bad").replace("owner/good", "no-owner"), 4, "weights.repo: "),
        (other("vllm/bad").replace("owner/good", '"owner/good\\n"'), 4, "weights.repo: "),
        (other("vllm/bad").replace("bf16", "int4"), 5, "weights.format: invalid enum value 'int4'"),
        (other("vllm/bad").replace("  repo: owner/good\n", ""), 3, "give exactly one of repo and path"),
        (other("vllm/bad").replace("  format", "  path: x\n  format"), 3, "give exactly one of repo and path"),
        (other("vllm/bad").replace("model: Good\n", ""), 1, "this key is missing: `model`"),
        (other("vllm/bad", "aliases: [vllm/bad]\n"), 7, "an alias repeats the slug's own name"),
        (other("vllm/bad", "flags:\n  seed: 1\n  --port: 1\n"), 9, "flags.--port: expected `str` matching"),
        (other("vllm/bad").replace("  repo", "  architecture: gone.json\n  repo"), 4, "there is no file 'gone.json'"),
        (other("vllm/bad").replace("  repo", "  architecture: ~no/x\n  repo"), 4, "there is no file '~no/x'"),
        (other("vllm/bad").replace("  repo", "  architecture: .\n  repo"), 4, "there is no file '.'"),
        (other("vllm/bad", "weights2:\n"), 7, "weights2: there is no such key"),
        (other("bad"), 1, "name: expected `str` matching regex"),
        (other("vllm/bad") + "size: " + "[" * 1_000, 7, "maximum nesting depth"),
        (other("vllm/bad").encode() + b"description: caf\xe9\n", 7, "not UTF-8 text"),
        (other("vllm/bad") + "\tdescription: x\n", 7, "not valid YAML"),
        (other("vllm/bad", 'description: "\\0"\n'), 7, "control characters are not allowed"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_a_problem_with_its_line_and_hides_nothing(
    folder: Path, data: str | bytes, line: int, says: str
) -> None:
    problem = problem_of(folder, data)
    assert f"bad.yaml, line {line}: " in problem.title
    assert says in problem.title


@pytest.mark.parametrize("data", ["", "\n", "# nothing\n"])
def test_an_empty_file_is_a_problem_named_after_its_place(folder: Path, data: str) -> None:
    problem = problem_of(folder, data)
    assert problem.title.endswith("the file is empty")
    assert problem.name == "bad"


def test_a_huge_file_is_a_problem(folder: Path) -> None:
    problem = problem_of(folder, other("vllm/bad") + "#" * MAX_BYTES)
    assert problem.title.endswith("the file is larger than 256 KiB")
    assert problem.name == "vllm/bad"


def test_an_unreadable_file_is_a_problem(folder: Path) -> None:
    # root may read everything, so a process file stands for what nobody may read
    (folder / "bad.yaml").symlink_to("/proc/self/mem")
    catalog = load(folder)
    assert names(catalog) == ["vllm/good"]
    assert "cannot be read" in catalog.problems[0].title


def test_folders_fifos_and_dangling_links_named_like_slugs_are_passed_over(folder: Path) -> None:
    (folder / "folder.yaml").mkdir()
    (folder / "gone.yaml").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "fifo.yaml")
    catalog = load(folder)
    assert names(catalog) == ["vllm/good"]
    assert catalog.problems == ()


def test_a_file_that_vanishes_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CockpitError, match="it is gone"):
        read_slug(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("flag", sorted(RESERVED_FLAGS))
def test_a_flag_with_a_key_of_its_own_is_refused(folder: Path, flag: str) -> None:
    problem = problem_of(folder, other("vllm/bad", f"flags:\n  seed: 1\n  {flag}: x\n"))
    assert f"line 9: --{flag} has a key of its own" in problem.title


@pytest.mark.parametrize("variable", sorted(RESERVED_ENV))
def test_a_variable_that_a_toggle_sets_is_refused(folder: Path, variable: str) -> None:
    problem = problem_of(folder, other("vllm/bad", f'env:\n  {variable}: "x"\n'))
    assert f"line 8: {variable} is set by" in problem.title


def test_two_slugs_of_one_folder_cannot_share_a_name_or_alias(folder: Path) -> None:
    (folder / "a.yaml").write_text(other("vllm/a", "aliases: [vllm/x]\n"))
    (folder / "b.yaml").write_text(other("vllm/b", "aliases: [vllm/x]\n"))
    (folder / "z.yaml").write_text(GOOD)
    catalog = load(folder)
    assert names(catalog) == ["vllm/a", "vllm/good"]
    assert [(problem.name, problem.file.name) for problem in catalog.problems] == [
        ("vllm/b", "b.yaml"),
        ("vllm/good", "z.yaml"),
    ]
    assert "vllm/x is already the name of another slug" in catalog.problems[0].title
    assert catalog.problems[0].detail == str(folder / "a.yaml")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    shipped, user = tmp_path / "shipped", tmp_path / "user"
    shipped.mkdir()
    user.mkdir()
    (shipped / "good.yaml").write_text(GOOD + "aliases: [vllm/nick]\n")
    return shipped, user


def test_the_users_slug_replaces_the_shipped_one(folders: tuple[Path, Path]) -> None:
    shipped, user = folders
    (user / "deep").mkdir()
    (user / "deep" / "mine.yml").write_text(GOOD.replace("4096", "8192"))
    catalog = load(shipped, (user,))
    assert names(catalog) == ["vllm/good"]
    entry = catalog.get("vllm/good")
    assert (entry.slug.max_model_len, entry.shipped) == (8192, False)


def test_a_broken_user_file_does_not_hide_the_shipped_slug(folders: tuple[Path, Path]) -> None:
    shipped, user = folders
    (user / "mine.yaml").write_text(GOOD + "nonsense: 1\n")
    catalog = load(shipped, (user,))
    assert catalog.get("vllm/good").shipped
    assert [problem.name for problem in catalog.problems] == ["vllm/good"]


def test_a_users_alias_is_taken_from_the_shipped_slug(folders: tuple[Path, Path]) -> None:
    shipped, user = folders
    (user / "mine.yaml").write_text(other("vllm/zebra", "aliases: [vllm/nick]\n"))
    catalog = load(shipped, (user,))
    assert names(catalog) == ["vllm/good", "vllm/zebra"]
    assert catalog.get("vllm/nick").slug.name == "vllm/zebra"
    assert catalog.get("vllm/good").slug.aliases == []


def test_a_users_name_is_taken_from_the_shipped_slugs_aliases(folders: tuple[Path, Path]) -> None:
    shipped, user = folders
    (user / "mine.yaml").write_text(other("vllm/nick"))
    catalog = load(shipped, (user,))
    assert catalog.get("vllm/nick").slug.name == "vllm/nick"
    assert catalog.get("vllm/good").slug.aliases == []


def test_a_users_alias_that_is_a_shipped_name_replaces_that_slug(folders: tuple[Path, Path]) -> None:
    shipped, user = folders
    (user / "mine.yaml").write_text(other("vllm/mine", "aliases: [vllm/good]\n"))
    catalog = load(shipped, (user,))
    assert names(catalog) == ["vllm/mine"]
    assert catalog.get("vllm/good").slug.name == "vllm/mine"


def test_a_folder_that_is_not_there_is_no_problem(folders: tuple[Path, Path]) -> None:
    shipped, user = folders
    catalog = load(shipped, (user / "nowhere",))
    assert (names(catalog), catalog.problems) == (["vllm/good"], ())


def test_a_relative_checkpoint_starts_at_the_slug_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "local.yaml").write_text(other("vllm/local").replace("repo: owner/good", "path: ../weights"))
    assert load(folder).get("vllm/local").model_source == str(folder / "weights")


def test_a_checkpoint_in_the_home_folder_is_found_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    (folder / "local.yaml").write_text(other("vllm/local").replace("repo: owner/good", "path: ~/weights"))
    assert load(folder).get("vllm/local").model_source == "/home/someone/weights"
