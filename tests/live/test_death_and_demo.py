"""A model that real vLLM cannot boot, and the demo as a script runs it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cockpit import paths

from .conftest import SLUG, Answer, cockpit, own_rows, serving

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def unknown_model(home: Path) -> Path:
    """A slug of the user whose checkpoint claims an architecture that no vLLM knows."""
    model = paths.user_slugs() / "unknown-model"
    shutil.copytree(paths.shipped("slugs") / "cpu" / "tiny-qwen3", model)
    config: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["NoSuchModelForCausalLM"], "model_type": "no_such_model"}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (paths.user_slugs() / "unknown.yaml").write_text(
        "name: mine/unknown\nmodel: unknown\nplatform: cpu\nmax_model_len: 512\n"
        "weights: {format: bf16, path: unknown-model}\nenforce_eager: on\n"
        "flags: {load-format: dummy}\nenv: {HF_HUB_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', DO_NOT_TRACK: '1'}\n",
        encoding="utf-8",
    )
    return model


@pytest.fixture(scope="module")
def died(unknown_model: Path) -> Answer:
    """What `cockpit serve --wait --json` said of it."""
    return cockpit("serve", "mine/unknown", "--wait", "--json")


def test_a_death_at_boot_is_exit_code_1_with_the_reason(died: Answer) -> None:
    assert died.code == 1
    assert "does not list the architecture NoSuchModelForCausalLM" in died.err, "it was warned of before the start"
    said = died.json
    assert (said["instance"], said["state"], said["boot_seconds"]) == ("mine-unknown", "dead", None)
    assert said["exit_code"] == 1
    assert "no_such_model" in said["first_exception"] and "Error" in said["first_exception"]
    assert any("Error" in line for line in said["last_lines"])
    assert "mine-unknown died while it started, exit code 1" in died.err
    assert said["first_exception"][:60] in died.err
    assert "Traceback (most recent call last)" not in died.err.splitlines()[-1]


def test_a_dead_server_stays_listed_with_its_log_and_nothing_of_it_runs(
    died: Answer, unknown_model: Path, home: Path
) -> None:
    (row,) = own_rows()
    assert (row["instance"], row["state"], row["exit_code"]) == ("mine-unknown", "dead", 1)
    assert serving(str(unknown_model), home) == []
    assert "no_such_model" in cockpit("logs", "mine-unknown").out
    top = cockpit("top", "mine-unknown", "--once")
    assert top.code == 1 and "is dead" in top.err
    stopped = cockpit("stop", "mine-unknown", "--json")
    assert stopped.code == 0 and stopped.json["stopped"] is True
    assert own_rows() == []


def test_the_demo_without_a_terminal_serves_measures_stops_and_says_so(home: Path) -> None:
    answer = cockpit("demo")
    assert answer.code == 0, answer.err
    assert "KV capacity 2,097,152 tokens" in answer.out
    blocks = re.findall(r"prefill +([\d.,–]+) tok/s computed +[\d.,–]+ cached +decode +([\d.,–]+) tok/s", answer.out)
    assert len(blocks) == 10
    last_prefill, last_decode = (float(figure.replace(",", "")) for figure in blocks[-1])
    assert last_prefill > 0 and last_decode > 0
    counted = re.search(r"the client itself counted ([\d,]+) generated tokens", answer.out)
    assert counted is not None and int(counted[1].replace(",", "")) > 0
    assert "stopped after" in answer.err
    assert own_rows() == []
    assert serving(str(paths.shipped("slugs") / SLUG), home) == []
