"""`--rig`: what a slug may do on a machine that is not here, and the refusals that no --force passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import FIXTURES
from cli_done import Cockpit
from made_checkpoints import ROWS, Row

SWITCH = "VLLM_MARLIN_INPUT_DTYPE"
SLUG = """name: vllm/mine
model: Mine
weights: {{path: '{path}', format: {format}, bits: 4{more}}}
max_model_len: 4096
"""
ADVISED = {"engine-missing", "weights-missing"}
"""What every plan for a described rig and a folder without weights is told."""


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


def checked(cockpit: Cockpit, *words: str) -> dict[str, Any]:
    done = cockpit("check", *words, "--json")
    assert done.err == ""
    found: dict[str, Any] = done.json
    assert done.code == (2 if any(one["severity"] == "block" for one in found["findings"]) else 0)
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row.fixture for row in ROWS])
def test_check_says_of_each_checkpoint_what_the_table_says(
    cockpit: Cockpit, write_slug: Callable[[str, str], Path], row: Row
) -> None:
    write_slug("mine.yaml", SLUG.format(path=FIXTURES / row.fixture, format=row.format, more=""))
    int8 = checked(cockpit, "vllm/mine", "--rig", "2x3090")["toggles"]["int8"]
    print(f"{row.fixture:<32} {int8['state']:<8} {int8['reason'] or ''}")
    assert int8["state"] == ("blocked" if row.says else "offered")
    assert (row.says or "") in (int8["reason"] or "")
    assert bool(int8["fix"]) == bool(row.says)
    assert int8["value"] == "off"


LIARS = list({row.says: row for row in ROWS if row.says}.values())
"""One checkpoint for each sentence."""


@pytest.mark.parametrize("row", LIARS, ids=[row.fixture for row in LIARS])
def test_a_slug_that_lies_about_its_files_gains_nothing(
    cockpit: Cockpit, write_slug: Callable[[str, str], Path], row: Row
) -> None:
    lie = ", symmetric: true, group_size: 128"
    write_slug("mine.yaml", SLUG.format(path=FIXTURES / row.fixture, format="auto-round", more=lie) + "int8: 'on'\n")
    found = checked(cockpit, "vllm/mine", "--rig", "2x3090")
    assert row.says is not None
    assert row.says in found["toggles"]["int8"]["reason"]
    assert found["toggles"]["int8"]["value"] == "off"
    rules = {one["rule"]: one for one in found["findings"]}
    assert row.says in rules["int8-default-off"]["message"]
    assert "slug-disagrees" in rules
    done = cockpit("plan", "vllm/mine", "--rig", "2x3090", "--set", "int8=on", "--json", "--force")
    assert done.code == 2
    assert SWITCH not in done.json["env"]


def test_vllm_dual_is_offered_int8_on_two_3090s(cockpit: Cockpit) -> None:
    found = checked(cockpit, "vllm/dual", "--rig", "2x3090")
    assert found["toggles"]["int8"] == {"state": "offered", "value": "off", "reason": None, "fix": None}
    assert [one["rule"] for one in found["findings"] if one["severity"] == "block"] == []
    plan = cockpit("plan", "vllm/dual", "--rig", "2x3090", "--set", "int8=on", "--json")
    assert plan.code == 0
    assert plan.json["env"][SWITCH] == "int8"


REFUSED = [
    (
        "vllm/qwen-27b-dual-max",
        "2x3090",
        "FP8 weights are 8-bit already: vLLM says that Marlin W8A8 is not supported",
    ),
    ("vllm/qwen38-27b-dual-max", "2x3090", "FP8 weights are 8-bit already"),
    ("vllm/qwen-27b-dual-nvfp4", "2x5090", "NVFP4 is a 4-bit float format: it cannot widen to int8 without loss"),
    ("vllm/qwen-27b-single-nvfp4", "2x5090", "NVFP4 is a 4-bit float format"),
    ("vllm/qwen-35b-a3b-dual", "2x3090", "mixture of experts: the experts take another path through vLLM"),
    (
        "vllm/qwen38-27b-int6-flat",
        "2x3090",
        "6-bit weights run on the Humming kernel, which does not read the switch",
    ),
    ("vllm/qwen38-27b-int5-flat", "2x3090", "5-bit weights run on the Humming kernel"),
    ("vllm/qwen38-27b-int6-mixed", "2x3090", "5, 6, 7-bit weights run on the Humming kernel"),
    ("cpu/tiny-qwen3", "2x3090", "BF16: nothing is quantized, so there is no Marlin layer to switch"),
]


@pytest.mark.parametrize(("slug", "rig", "says"), REFUSED, ids=[slug for slug, _, _ in REFUSED])
def test_other_slugs_refuse_it_with_their_own_sentence_and_force_does_not_help(
    cockpit: Cockpit, slug: str, rig: str, says: str
) -> None:
    int8 = checked(cockpit, slug, "--rig", rig)["toggles"]["int8"]
    print(f"{slug:<28} {int8['state']:<8} {int8['reason']}")
    assert (int8["state"], int8["value"]) == ("blocked", "off")
    assert says in int8["reason"]
    for force in ([], ["--force"]):
        done = cockpit("plan", slug, "--rig", rig, "--set", "int8=on", "--json", *force)
        assert done.code == 2
        (finding,) = [one for one in done.json["findings"] if one["rule"] == "toggle-int8"]
        assert finding["severity"] == "block"
        assert says in finding["message"]
        assert SWITCH not in done.json["env"]
        assert SWITCH not in done.json["command"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_without_a_rig_the_8_bit_slug_refuses_int8_as_well(
    cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch, force: list[str]
) -> None:
    monkeypatch.setenv(SWITCH, "int8")
    done = cockpit("plan", "vllm/qwen-27b-dual-max", "--set", "int8=on", *force)
    assert done.code == 2
    assert "✕ int8 is blocked: FP8 weights are 8-bit already" in done.err
    assert f"-u {SWITCH}" in done.out
    assert f"{SWITCH}=" not in done.out


def test_hopper_refuses_it_with_its_own_sentence_and_force_passes_the_rig(cockpit: Cockpit) -> None:
    int8 = checked(cockpit, "vllm/minimal", "--rig", "1xh200")["toggles"]["int8"]
    assert int8["state"] == "blocked"
    assert "on Hopper vLLM picks the Machete kernel, which ignores the switch" in int8["reason"]
    words = ["plan", "vllm/minimal", "--rig", "1xh200", "--set", "int8=on", "--json"]
    refused, forced = cockpit(*words), cockpit(*words, "--force")
    assert (refused.code, forced.code) == (2, 0)
    assert "toggle-int8" in [one["rule"] for one in refused.json["findings"]]
    assert forced.json["env"][SWITCH] == "int8"


def test_eager_mode_with_int8_is_a_warning(cockpit: Cockpit) -> None:
    words = ["--set", "int8=on", "--set", "enforce_eager=on"]
    found = checked(cockpit, "vllm/dual", "--rig", "2x3090", *words)
    (finding,) = [one for one in found["findings"] if one["rule"] == "int8-eager"]
    assert finding["severity"] == "warn"
    assert "0.46x" in finding["message"]


def test_a_described_rig_is_asked_for_its_own_cards(cockpit: Cockpit, tmp_path: Path) -> None:
    rules = [one["rule"] for one in checked(cockpit, "vllm/dual", "--rig", "1x3090")["findings"]]
    assert "gpu-index" in rules
    file = tmp_path / "mine.yaml"
    file.write_text(
        'gpus: [{name: Card, count: 2, memory_gib: 24, used_gib: 20, capability: "8.6"}]\n'
        "host_memory_gib: 64\ncpu_count: 16\n"
    )
    full = checked(cockpit, "vllm/dual", "--rig", str(file))
    found = [one["message"] for one in full["findings"] if one["rule"] == "memory-in-use"]
    assert len(found) == 2
    assert "GPU 0 has 4.0 GiB free, vLLM would ask for 22.1 (0.92 of 24.0)" in found[0]


@pytest.mark.parametrize(
    "verb", [["check", "vllm/dual"], ["plan", "vllm/dual"], ["inspect", str(FIXTURES / "llama")]]
)
def test_a_rig_that_is_none_is_one_sentence(refused: Callable[..., str], tmp_path: Path, verb: list[str]) -> None:
    assert "Did you mean 2x3090?" in refused(*verb, "--rig", "2x3091")
    (tmp_path / "bad.yaml").write_text("gpus: []\ncpu_count: many\nhost_memory_gib: 8\n")
    assert "line 2: cpu_count" in refused(*verb, "--rig", str(tmp_path / "bad.yaml"))


def test_nothing_of_this_host_is_held_against_another(cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "X")
    found = checked(cockpit, "vllm/dual", "--rig", "2x3090")
    assert {one["rule"] for one in found["findings"]} <= {"engine-missing"}
