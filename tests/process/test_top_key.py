"""The API key goes to servers that the user named, when they ask for it, and to no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))

from truth_server import TruthServer


def cockpit(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "cockpit", *words]
    env = {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"} | variables
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=600, check=False, stdin=subprocess.DEVNULL
    )


def test_an_adopted_server_gets_the_key_it_asks_for_and_says_when_it_lacks_one() -> None:
    with TruthServer("steady") as server:
        server.key = "k-1"
        assert cockpit("adopt", server.url, "--name", "far").returncode == 0
        without = cockpit("top", "far", "--once", "--seconds", "0.5")
        shown = cockpit("top", "far", "--once", "--seconds", "2", "--json", VLLM_API_KEY="k-1")
        wrong = cockpit("top", "--url", server.url, "--once", "--seconds", "0.5", VLLM_API_KEY="k-2")
    assert without.returncode == 1 and "HTTP 401" in without.stderr and without.stderr.count("\n") == 1
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["requests"]["running"] == 2
    assert wrong.returncode == 1 and "k-2" not in wrong.stderr
    sent = [request.get("authorization") for request in server.requests_seen]
    assert sent.count("Bearer k-1") == 2 and sent.count("Bearer k-2") == 1
