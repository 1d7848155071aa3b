"""Flags of an installed vLLM: asked once of a command that can be counted, remembered, and matched with plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig_fakes import MakeEngine, write_script

from cockpit import paths
from cockpit.errors import FailedError
from cockpit.rig import flags as flags_module
from cockpit.rig.engines import probe_engine
from cockpit.rig.flag_words import unknown_flags
from cockpit.rig.flags import EngineFlags, cached_flags, engine_flags
from cockpit.rig.help_text import read_help
from cockpit.rig.types import Engine

HELP = """usage: vllm serve [model] [options]

A server.

options:
  --config FILE         settings
  -h, --help            this text

Model:
  Options of the model.

  --dtype {auto,half}   number type
  --max-model-len N     tokens
  --tokenizer-mode ['auto', 'hf']
                        how to split
  --speculative-config JSON, -sc JSON
                        a draft

Cache:
  --enable-prefix-caching, --no-enable-prefix-caching
                        keep prompts
  --enable-chunks, --disable-chunks
                        cut prompts
  --kv-cache-dtype {auto,fp8}
                        type of the cache
  --kv-cache-memory-bytes N
                        size of the cache
  --tensor-parallel-size N, -tp N
                        ranks
"""
FLAGS = EngineFlags(version="0.33.0", flags=read_help(HELP))


@pytest.fixture
def engine(tmp_path: Path, make_engine: MakeEngine) -> Engine:
    """An engine whose command prints the help, and leaves a line and its environment each time it runs."""
    found = probe_engine(make_engine(tmp_path / "v"), "mine")
    (tmp_path / "help.txt").write_text(HELP)
    script = f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nenv > {tmp_path}/env\ncat {tmp_path}/help.txt\n'
    write_script(Path(found.path), script)
    return found


def asked(tmp_path: Path) -> int:
    return (tmp_path / "asked").read_text().count("\n")


def test_an_engine_is_asked_once_and_remembered(tmp_path: Path, engine: Engine) -> None:
    assert cached_flags(engine) is None
    flags = engine_flags(engine)
    assert flags.flags["-tp"].takes_value and flags.flags["--dtype"].choices == ("auto", "half")
    assert engine_flags(engine) == flags
    assert cached_flags(engine) == flags
    assert (tmp_path / "asked").read_text() == "serve --help=all\n"


def test_it_is_asked_offline_and_without_variables_that_could_stop_it(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_MARLIN_INPUT_DTYPE", "")
    engine_flags(engine)
    environment = (tmp_path / "env").read_text()
    assert "HF_HUB_OFFLINE=1" in environment
    assert "VLLM_MARLIN_INPUT_DTYPE" not in environment


@pytest.mark.parametrize("changed", ["command", "package", "source"])
def test_it_is_asked_again_when_it_changed(tmp_path: Path, engine: Engine, changed: str) -> None:
    engine_flags(engine)
    if changed == "command":
        command = Path(engine.path)
        command.write_text(command.read_text() + "# new\n")
    elif changed == "package":
        (Path(engine.package).parent / "another").mkdir()
    else:
        (Path(engine.package) / "_version.py").write_text("version = '1'\n")
    assert cached_flags(engine) is None
    engine_flags(engine)
    assert asked(tmp_path) == 2


@pytest.mark.parametrize("rubbish", [b"", b"[]", b'{"format": 1}', b"\xff"])
def test_a_broken_cache_is_as_none(tmp_path: Path, engine: Engine, rubbish: bytes) -> None:
    engine_flags(engine)
    (file,) = (paths.cache_home() / "flags").glob("*.json")
    file.write_bytes(rubbish)
    assert cached_flags(engine) is None
    assert engine_flags(engine).flags
    assert asked(tmp_path) == 2


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("#!/bin/sh\nexit 0\n", "its help shows no option"),
        (
            "#!/bin/sh\nprintf 'Traceback\\nImportError: no \\033[31mtorch\\n' >&2\nexit 1\n",
            "ImportError: no  [31mtorch",
        ),
        ("#!/bin/sh\nsleep 3600\n", "did not answer within 0.3 s"),
        (None, "cannot be run"),
    ],
)
def test_an_engine_that_does_not_answer_is_one_sentence(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, script: str | None, says: str
) -> None:
    monkeypatch.setattr(flags_module, "_TIMEOUT_SECONDS", 0.3 if script and "sleep" in script else 600.0)
    if script is None:
        Path(engine.path).unlink()
    else:
        write_script(Path(engine.path), script)
    with pytest.raises(FailedError) as failed:
        engine_flags(engine)
    assert says in failed.value.sentence()
    assert failed.value.sentence().isprintable()
    assert cached_flags(engine) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--max-model-len", "4096", "--dtype=half"],
        ["--max_model_len=4096", "--kv_cache_dtype", "fp8"],
        ["--max-model-len", "-1"],
        ["--speculative-config.method", "mtp", "--speculative_config.num_tokens=3", "-sc", "{}"],
        ["--no-enable-prefix-caching"],
        ["--disable-chunks", "--no-enable-chunks", "--no-disable-chunks"],
        ["--kv-cache-mem", "1", "--tens=2", "-tp", "2", "-tp=2"],
        ["-O3", "-O", "2", "-O=1", "--model", "m"],
        ["--config", "- a value with blanks"],
        ["--", "--anything"],
        [],
    ],
)
def test_what_this_vllm_takes_is_known(words: list[str]) -> None:
    assert unknown_flags(["vllm", "serve", "owner/model", *words], FLAGS) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--disable-prefix-caching", "--disable-prefix-caching (nearest: --enable-prefix-caching)"),
        ("--no-max-model-len", "--no-max-model-len (nearest: --max-model-len)"),
        ("--max_model_length=1", "--max-model-length (nearest: --max-model-len)"),
        ("--kv-cache", "--kv-cache (nearest: --kv-cache-dtype or --kv-cache-memory-bytes)"),
        ("--swap-space", "--swap-space"),
        ("--swap.space", "--swap"),
        ("-zz", "-zz"),
    ],
)
def test_what_it_does_not_take_is_named_with_the_nearest(word: str, expected: str) -> None:
    assert unknown_flags(["vllm", "serve", "m", word], FLAGS) == [expected]
