"""The key of servers: from the environment or a private file, and in no text that anyone reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit import paths
from cockpit.api_key import find_api_key, key_file
from cockpit.cli import main as cli
from cockpit.errors import CockpitError
from cockpit.redact import secret_values
from cockpit.session import Session
from cockpit.supervisor.logfile import Tail, last_lines

KEY = "quite-a-secret-key"


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    for name in ("VLLM_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write_key(text: str = f"{KEY}\n", mode: int = 0o600) -> Path:
    file = key_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def test_the_environment_wins_over_the_file_and_nothing_is_none() -> None:
    assert find_api_key({}) is None
    write_key()
    assert find_api_key({}) == KEY
    assert find_api_key({"VLLM_API_KEY": "other"}) == "other"


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o666])
def test_a_file_that_others_may_read_is_refused_without_its_key(mode: int) -> None:
    file = write_key(mode=mode)
    with pytest.raises(CockpitError) as caught:
        find_api_key({})
    assert f"chmod 600 {file}" in caught.value.fix and KEY not in caught.value.sentence()


@pytest.mark.parametrize("text", ["", "\n", "two\nlines\n", "two words", "x" * 5000, "\x1b[31mred"])
def test_a_file_that_is_no_single_line_is_refused(text: str) -> None:
    write_key(text)
    with pytest.raises(CockpitError, match="holds no key"):
        find_api_key({})


def test_a_folder_in_its_place_is_refused() -> None:
    key_file().mkdir(parents=True)
    with pytest.raises(CockpitError, match="is not a file"):
        find_api_key({})


def test_the_key_reaches_the_server_by_its_environment_alone() -> None:
    write_key()
    plan = Session().plan("cpu/tiny-qwen3", {"host": "0.0.0.0"})
    assert plan.env["VLLM_API_KEY"] == KEY
    assert not any(KEY in word for word in plan.argv)
    assert "exposed-without-key" not in {finding.rule for finding in plan.findings}


@pytest.mark.parametrize("words", [("plan", "cpu/tiny-qwen3"), ("plan", "cpu/tiny-qwen3", "--json")])
def test_a_plan_shows_that_there_is_a_key_and_not_which(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write_key()
    cli.main(words)
    shown = capsys.readouterr()
    assert "VLLM_API_KEY" in shown.out and "<redacted>" in shown.out
    assert KEY not in shown.out + shown.err


def test_the_key_in_a_log_is_redacted_however_it_came_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_key()
    monkeypatch.setenv("HF_TOKEN", "a-token-of-hf")
    assert secret_values() == {KEY, "a-token-of-hf"}
    log = tmp_path / "log"
    log.write_text(
        f"the key is {KEY}!\nand a-token-of-hf too\nargs: {{'api_key': ['unknown-key'], 'port': 1}}\n"
        f"args: {{'api_\x1b[31mkey': ['colour\x1b[0med-key']}}\n{'y' * 1990} --api-key {'k' * 30}\n",
        encoding="utf-8",
    )
    for lines in (Tail(log).read(), last_lines(log, 5)):
        text = "\n".join(lines)
        for secret in (KEY, "a-token", "unknown-key", "coloured", "kkk"):
            assert secret not in text
        assert lines[0] == "the key is <redacted>!" and "'port': 1" in lines[2]


def test_a_slug_that_others_may_read_with_a_secret_in_it_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    folder = paths.user_slugs()
    folder.mkdir(parents=True)
    file = folder / "mine.yaml"
    file.write_text(
        "name: mine/key\nmodel: m\nplatform: cpu\nmax_model_len: 512\nweights: {format: bf16, repo: a/b}\n"
        f"env: {{HF_TOKEN: {KEY}}}\n",
        encoding="utf-8",
    )
    for mode, warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        cli.main(("check", "mine/key", "--json"))
        shown = capsys.readouterr()
        rules = {finding["rule"] for finding in json.loads(shown.out)["findings"]}
        assert ("secret-in-slug" in rules) is warned
        assert KEY not in shown.out + shown.err


@pytest.mark.parametrize("flag", ["api-key", "api-k", "ap", "hf-token", "hf-t"])
def test_a_key_as_a_flag_of_a_slug_is_refused_by_any_beginning(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    paths.user_slugs().mkdir(parents=True)
    (paths.user_slugs() / "mine.yaml").write_text(
        "name: mine/key\nmodel: m\nplatform: cpu\nmax_model_len: 512\nweights: {format: bf16, repo: a/b}\n"
        f"flags: {{{flag}: {KEY}}}\n",
        encoding="utf-8",
    )
    assert cli.main(("plan", "mine/key")) == 2
    shown = capsys.readouterr()
    assert "environment variable" in shown.err and KEY not in shown.out + shown.err


def test_a_bug_report_keeps_no_secret(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)

    def broken(*_: object) -> None:
        raise RuntimeError(f"died with {KEY}")

    monkeypatch.setattr(Session, "instances", broken)
    assert cli.main(("ps", "--json")) == 1
    shown = capsys.readouterr()
    assert "a bug in cockpit" in shown.out and KEY not in shown.out + shown.err
    (report,) = paths.state_home().glob("crash-*.txt")
    assert "RuntimeError" in report.read_text(encoding="utf-8") and KEY not in report.read_text(encoding="utf-8")
    assert report.stat().st_mode & 0o077 == 0
