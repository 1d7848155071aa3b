"""`cockpit top --url` on servers of known truth: every figure within 2 %, every failure said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))

from truth_check import NO_ANSWER, Shown, figures, show_all
from truth_modes import MODES


@pytest.fixture(scope="module")
def shown() -> dict[str, Shown]:
    """Every mode, looked at once through the command line; they wait at the same time."""
    return show_all(sorted(MODES), at_once=13)


@pytest.mark.parametrize("mode", sorted(MODES.keys() - NO_ANSWER.keys()))
def test_every_figure_is_the_truth_within_two_percent(shown: dict[str, Shown], mode: str) -> None:
    assert shown[mode].code == 0, shown[mode].error
    found = figures(shown[mode])
    assert found
    assert [one for one in found if not one.is_right] == []


@pytest.mark.parametrize("mode", sorted(NO_ANSWER))
def test_a_server_that_gives_no_figures_is_a_sentence_and_exit_code_one(shown: dict[str, Shown], mode: str) -> None:
    assert shown[mode].code == 1
    assert NO_ANSWER[mode] in shown[mode].error
    assert "Traceback" not in shown[mode].error


@pytest.mark.parametrize(
    ("mode", "note"),
    [
        ("restart", "restarted"),
        ("not-vllm", "no vLLM figures"),
        ("long-prefill", "long prefill is in progress"),
        ("sleep", "sleeps"),
        ("dp2", "2 engines"),
        ("hybrid", "share of the pool"),
        ("poor-draft", "draft tokens are accepted"),
        ("overflow", "beyond the last bucket"),
        ("api-servers", "API servers"),
        ("old-blind", "incl. cached"),
        ("dp8-lost", "Engine 3 is no longer"),
        ("engine-restart", "Engine 1 began anew"),
        ("engine-back", "Engine 1 came to the figures"),
        ("pooling", "generates nothing"),
        ("pooling-encoder", "keeps no KV cache"),
        ("sliding-window", "Not all layers keep every token"),
        ("encoder-decoder", "Not all layers keep every token"),
        ("sleep-2", "weights and KV discarded"),
        ("sleep-0", "paused"),
        ("sglang", "This is SGLang, not vLLM"),
        ("no-log-stats", "This vLLM publishes no figures"),
    ],
)
def test_what_is_special_is_said(shown: dict[str, Shown], mode: str, note: str) -> None:
    assert any(note in said for said in shown[mode].frame["notes"])
