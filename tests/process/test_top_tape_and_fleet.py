"""`cockpit top` with a tape, and with several servers at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))

from truth_server import TruthServer


def cockpit(*words: str, **options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "cockpit", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False, stdin=subprocess.DEVNULL)


def test_what_top_records_replay_shows(tmp_path: Path) -> None:
    tape = tmp_path / "a.tape"
    with TruthServer("mtp") as server:
        top = cockpit("top", "--url", server.url, "--record", str(tape), "--for", "3.5")
    assert top.returncode == 0, top.stderr
    looks = len(server.scraped_at)
    assert 2 <= looks <= 4, "one a second, and fewer on a machine that is late"
    assert f"{looks} looks are in" in top.stderr
    frames = json.loads(cockpit("replay", str(tape), "--json").stdout)["frames"]
    assert len(frames) == looks
    speed = 260 * server.scraped_seconds() / frames[-1]["window_seconds"]
    assert frames[-1]["throughput"]["decode_tokens_per_second"] == pytest.approx(speed, rel=0.01)
    assert frames[-1]["state"] == "foreign"
    shown = cockpit("replay", str(tape), "--speed", "100")
    assert shown.returncode == 0
    assert 1 <= shown.stdout.count("decode ") <= looks, "a look that is late is passed over, but for the last"
    assert "2.60 tokens a step" in shown.stdout
    again = cockpit("top", "--url", "http://127.0.0.1:9", "--record", str(tape))
    assert again.returncode == 2 and "exists" in again.stderr


def test_a_user_and_password_of_a_url_are_not_recorded(tmp_path: Path) -> None:
    tape = tmp_path / "a.tape"
    with TruthServer("steady") as server:
        address = server.url.replace("http://", "http://user:hunter2@")
        assert cockpit("top", "--url", address, "--record", str(tape), "--for", "0.5").returncode == 0
    import gzip

    assert b"hunter2" not in gzip.decompress(tape.read_bytes())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("top", "--url", "http://h", "--record", "x", "--once"), "--record and --for need more than one look"),
        (("top", "--url", "http://h", "--url", "http://i", "--record", "x"), "a tape holds one server"),
        (("top", "--url", "http://h", "--for", "0"), "--for is out of range"),
        (("top", "--url", "h", "--url", "http://i", "--once"), "not a server's URL"),
        (("replay", "nothing-there"), "cannot be read"),
        (("replay", "x", "--speed", "nan"), "--speed is out of range"),
    ],
)
def test_wrong_use_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    answer = cockpit(*words)
    assert answer.returncode == 2
    assert said in answer.stderr and answer.stderr.count("\n") == 1


def test_several_servers_are_a_table_and_one_that_is_gone_is_a_row_of_it() -> None:
    with TruthServer("steady") as one, TruthServer("dp2") as two, TruthServer("steady") as gone:
        urls = [word for url in (one.url, two.url, gone.url) for word in ("--url", url)]
        gone.close()
        answer = cockpit("top", *urls, "--seconds", "3", "--json")
        seconds = [server.scraped_seconds() for server in (one, two)]
        text = cockpit("top", *urls, "--seconds", "1", "--once")
        live = cockpit("top", *urls, "--for", "2.5")
    assert answer.returncode == 1
    first, second, third = json.loads(answer.stdout)
    assert (first["url"], first["error"], first["state"]) == (one.url, None, "foreign")
    speeds = [(row["throughput"]["decode_tokens_per_second"], row["window_seconds"]) for row in (first, second)]
    assert speeds[0][0] == pytest.approx(90 * seconds[0] / speeds[0][1], rel=0.01)
    assert second["engines"] == 2
    assert speeds[1][0] == pytest.approx(120 * seconds[1] / speeds[1][1], rel=0.01)
    assert "refused" in third["error"] and third.keys() == first.keys()
    assert (third["engines"], third["throughput"]["decode_tokens_per_second"]) == (None, None)
    assert text.returncode == 1
    assert len(text.stdout.splitlines()) == 4
    assert "37.0 %" in text.stdout and "refused" in text.stdout
    assert live.returncode == 0
    assert 1 <= live.stdout.count("server ") <= 3
