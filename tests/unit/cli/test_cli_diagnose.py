"""`cockpit diagnose` from the shell."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cockpit.cli.main import main

LOGS = Path(__file__).parents[2] / "fixtures" / "boot-logs"
DEAD = LOGS / "h200-0.26-nokv.log"


def test_the_json_is_as_scripts_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(DEAD), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["healthy"], said["ready"], said["vllm_version"], said["symptom"]) == (
        False,
        False,
        "0.26.0",
        "kv-max-len",
    )
    assert said["first_exception"].startswith("ValueError: To serve at least one request")
    assert said["fixes"][0]["set"] == {"max_model_len": 28224} and said["fixes"][0]["env"] == {}
    assert said["stages"][0]["id"] == "environment" and said["stages"][-1]["seconds"] is None
    facts = said["facts"]
    assert (facts["weights_gib"], facts["available_kv_gib"], facts["max_model_len"]) == (50.22, 1.9, 262_144)
    assert facts["kernels"] == {"GDN prefill": "FlashInfer"} and facts["attention_backend"] == "FLASH_ATTN"


def test_people_read_a_sentence_the_exception_with_its_place_and_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(DEAD)]) == 0
    first, exception, fix, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "One request of 262,144 tokens does not fit the KV pool: it needs 16.2 GiB, there are 1.9 GiB."
    )
    assert exception.endswith("(kv_cache_utils.py:_check_enough_kv_cache_memory)")
    assert "28,224" in fix and "[--set max_model_len=28224]" in fix


def test_a_healthy_log_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(LOGS / "h200-0.26-ct4-graph.log"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["healthy"], said["ready"], said["symptom"], said["fixes"], said["explanation"]) == (
        True,
        True,
        None,
        [],
        None,
    )


@pytest.mark.parametrize("text", ["", "hello\n", "2026-01-01 nginx started\n"])
def test_a_text_that_is_no_log_of_a_server_is_not_called_a_boot(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.log").write_text(text)
    assert main(["diagnose", str(tmp_path / "x.log")]) == 0
    assert capsys.readouterr().out.startswith("This log does not say how far a vLLM server came")


def test_an_excerpt_may_come_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"OSError: [Errno 98] Address already in use\n")))  # type: ignore[arg-type]
    monkeypatch.setattr("sys.stdin", pipe)
    assert main(["diagnose", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["symptom"] == "port-in-use"


def test_an_empty_log_says_nothing_and_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.log").touch()
    assert main(["diagnose", str(tmp_path / "empty.log"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["healthy"], said["ready"], said["symptom"], said["first_exception"]) == (False, False, None, None)


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "gzip", "nobody"])
def test_what_cannot_be_read_is_refused_in_one_sentence(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\x00\x01\x02" * 100)
    (tmp_path / "gzip").write_bytes(b"\x1f\x8b\x08" + bytes(range(200)))
    (tmp_path / "folder").mkdir()
    source = "nobody-of-that-name" if kind == "nobody" else str(tmp_path / kind)
    assert main(["diagnose", source, "--json"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["title"] and "Traceback" not in said.err


def test_untrusted_text_of_a_log_does_not_reach_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evil.log"
    file.write_bytes(b"ValueError: \x1b]0;owned\x07\x1b[2Jodd [bold]x[/bold]\n")
    assert main(["diagnose", str(file)]) == 0
    assert "\x1b" not in capsys.readouterr().out
