"""`cockpit diagnose` from the shell."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

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


def test_a_folder_gives_a_table_of_case_symptom_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(LOGS)]) == 0
    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    rows = {line.split()[0]: line.split()[1] for line in lines}
    assert head.split() == ["CASE", "SYMPTOM", "FIX"]
    assert rows == {
        "cpu-0.32-badarch.log": "arch-unsupported",
        "cpu-0.32-nodir.log": "model-not-found",
        "cpu-0.32-nokv.log": "kv-max-len",
        "cpu-0.32-offline.log": "hub-offline",
        "cpu-0.32-port.log": "port-in-use",
        "cpu-0.32-tiny-eager-sigint.log": "healthy",
        "h200-0.26-ar4-int8-overlay.log": "healthy",
        "h200-0.26-ct4-graph.log": "healthy",
        "h200-0.26-nokv.log": "kv-max-len",
        "h200-0.26-q38-ar4-int8-mtp3.log": "healthy",
        "h200-0.26-q38-ct6-mtp3-seed.log": "healthy",
        "h200-0.26-tp2.log": "too-few-gpus",
    }
    assert "7 explained, 5 healthy" in err


def test_the_cases_of_a_yaml_file_are_read_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[1] / "supervisor" / "diagnose" / "fixtures" / "reports.yaml"
    expected = {f"{file.name}:{case['id']}": case["symptom"] for case in yaml.safe_load(file.read_text())}
    assert main(["diagnose", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {case["case"]: case["symptom"] for case in said} == expected


def test_a_folder_says_what_it_could_not_read_and_leaves_out_what_is_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.log.1").write_text("ValueError: No available memory for the cache blocks.\n")
    (tmp_path / "b.txt").write_text("RuntimeError: something that nobody has seen before\n")
    (tmp_path / "c.log").write_bytes(b"\x1f\x8b\x08\x00")
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".hidden.log").write_text("x")
    (tmp_path / "round").symlink_to(tmp_path)
    assert main(["diagnose", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    cases = {case["case"]: case.get("symptom", case["problem"]) for case in json.loads(out)}
    assert cases == {
        "b.txt": None,
        "below/a.log.1": "kv-no-memory",
        "c.log": f"{tmp_path}/c.log is no text",
        "compose.yaml": "a YAML file without cases: a list of mappings with a `log`",
    }
    assert "1 explained, 2 not read, 1 unknown" in err


def test_a_folder_without_logs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "has no logs in it" in capsys.readouterr().err
