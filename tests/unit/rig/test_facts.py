"""Facts of the host, from folders and environments of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig_fakes import write_script

from cockpit.rig.facts import (
    asks_for_segments,
    file_system,
    find_compiler,
    free_bytes,
    has_amx,
    inherited_variables,
    is_writable,
    read_facts,
)


def test_the_compiler_is_the_one_that_triton_takes(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert find_compiler({"PATH": path}) is None
    clang = write_script(tmp_path / "clang", "#!/bin/sh\n")
    assert find_compiler({"PATH": path}) == str(clang)
    gcc = write_script(tmp_path / "gcc", "#!/bin/sh\n")
    assert find_compiler({"PATH": path}) == str(gcc)
    mine = write_script(tmp_path / "elsewhere" / "mycc", "#!/bin/sh\n")
    assert find_compiler({"PATH": path, "CC": str(mine)}) == str(mine)
    assert find_compiler({"PATH": path, "CC": "no-such-compiler"}) is None


def test_only_variables_that_change_a_plan_are_named() -> None:
    environ = {
        "VLLM_USE_V2": "secret",
        "VLLM_API_KEY": "k",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "VLLM_\x1b[2J": "1",
        "XVLLM_A": "1",
        "VLLM_MARLIN_INPUT_DTYPE": "int8",
        "PATH": "/",
    }
    assert inherited_variables(environ) == ("VLLM_MARLIN_INPUT_DTYPE", "VLLM_USE_V2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("expandable_segments:True", True),
        ("max_split_size_mb:128, expandable_segments : true", True),
        ("expandable_segments:False", False),
        ("expandable_segments", False),
        ("", False),
    ],
)
def test_expandable_segments_are_seen_among_other_settings(text: str, expected: bool) -> None:
    assert asks_for_segments(text) is expected


def test_room_is_that_of_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    total, free = file_system(tmp_path)
    assert total is not None and free is not None and 0 <= free <= total
    assert file_system(tmp_path / "missing") == (None, None)
    later = free_bytes(tmp_path / "missing" / "deeper")
    assert later is not None and abs(later - free) < 1 << 30
    assert free_bytes(Path("/a\0b")) is not None  # the root's


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu amx_bf16 amx_tile amx_int8\n", True),
        ("flags\t\t: fpu avx512f amx_tiles\n", False),
        ("processor : 0\nFeatures : fp asimd\n", False),
    ],
)
def test_amx_is_what_linux_names_among_the_processors_flags(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    assert has_amx(tmp_path / "cpuinfo") is expected
    assert not has_amx(tmp_path / "missing")


def test_the_facts_of_an_environment_are_gathered_at_once(tmp_path: Path) -> None:
    (tmp_path / "hub" / "models--o--n" / "snapshots" / "x").mkdir(parents=True)
    facts = read_facts(
        {"HF_HOME": str(tmp_path), "HF_TOKEN": "t", "PYTORCH_ALLOC_CONF": "expandable_segments:True", "VLLM_A": "1"}
    )
    assert facts.cached_repos == {"o/n"}
    assert (facts.token, facts.inherited, facts.expandable_segments) == ("HF_TOKEN", ("VLLM_A",), True)
    assert facts.model_cache == str(tmp_path / "hub") and facts.model_cache_free_bytes
    assert not facts.offline


def test_a_folder_that_cannot_be_made_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert is_writable(tmp_path) and is_writable(tmp_path / "new" / "cache")
    assert not is_writable(tmp_path / "file" / "cache")


def test_the_folder_of_the_sockets_is_vllms_own_or_the_systems(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    assert read_facts(environ).socket_folder == str(tmp_path)
    assert read_facts({**environ, "VLLM_RPC_BASE_PATH": "/r"}).socket_folder == "/r"
