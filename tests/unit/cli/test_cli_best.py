"""`cockpit best`, and the fits of `cockpit slugs`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cli_done import Cockpit


def test_the_best_that_fits_comes_first_and_8_bit_is_out_with_a_reason(cockpit: Cockpit) -> None:
    done = cockpit("best", "qwen", "27b", "--rig", "2x3090", "--json")
    answer = done.json
    assert done.code == 0 and answer["max_model_len"] == 262_144
    assert answer["best"] == answer["candidates"][0]["slug"] == "vllm/qwen38-27b-int6-mixed"
    assert [one["place"] for one in answer["candidates"]] == list(range(1, len(answer["candidates"]) + 1))
    for one in answer["candidates"]:
        assert one["state"] in ("fits", "fits-small-kv", "uncertain", "out") and one["why"]
        if one["weights"] == "FP8":
            assert one["state"] == "fits-small-kv" and "GiB more a GPU" in one["why"]


def test_as_text_it_keeps_to_the_terminal(cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("80", "60", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        done = cockpit("best", "qwen3.8", "--rig", "2x3090")
        assert done.code == 0
        lines = done.out.splitlines()
        assert lines[0] == "262,144 tokens of context on 2x RTX 3090 24 GiB"
        assert lines[3].startswith(" 1  vllm/qwen38-27b-int6-mixed")
        assert all(len(line) <= int(columns) for line in lines)


def test_the_context_is_the_one_wanted(cockpit: Cockpit) -> None:
    done = cockpit("best", "qwen3.8", "--rig", "2x3090", "--max-model-len", "64k", "--json")
    assert done.json["max_model_len"] == 64_000


def test_where_nothing_fits_the_exit_code_says_so(cockpit: Cockpit) -> None:
    done = cockpit("best", "qwen3.8", "--rig", "1x3090", "--json")
    assert done.code == 1 and done.json["best"] is None
    assert "does not fit:" in cockpit("best", "qwen3.8", "--rig", "1x3090").out


def test_bad_words_and_numbers_are_refused(refused: Callable[..., str]) -> None:
    assert "no slug matches 'no-such-model'" in refused("best", "no-such-model")
    assert "max_model_len=many cannot be used" in refused("best", "qwen", "--max-model-len", "many")


def test_slugs_say_whether_they_fit(cockpit: Cockpit) -> None:
    by_name = {one["name"]: one["fits"] for one in cockpit("slugs", "--rig", "2x3090", "--json").json}
    mixed = by_name["vllm/qwen38-27b-int6-mixed"]
    assert mixed["fits"] in ("yes", "tight") and mixed["kv"]["capacity_tokens"] > 262_144
    assert mixed["headroom_tokens"] == mixed["kv"]["capacity_tokens"] - 262_144
    assert by_name["vllm/qwen-27b-multi-fast"]["needs_gpus"] == 4
    assert by_name["vllm/qwen-27b-multi-fast"]["fits"] == "no"


@pytest.mark.parametrize("columns", ["80", "100", "140"])
def test_the_table_of_slugs_keeps_to_the_terminal(
    cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = cockpit("slugs", "--rig", "2x3090").out
    header, *rows = out.splitlines()
    assert all(len(line) <= int(columns) for line in out.splitlines())
    assert {"SLUG", "CONTEXT", "FITS"} <= set(header.split())
    assert ("INT8" in header) == (columns != "80") or "needs" in out
    assert any("needs 4 GPUs" in row for row in rows)
    assert all(name in out for name in ("vllm/qwen38-27b-multi4-fast", "vllm/qwen-27b-single-nvfp4"))
