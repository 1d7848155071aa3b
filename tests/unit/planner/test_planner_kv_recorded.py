"""The planner against answers of vLLM 0.32's own planning functions, recorded by the driver of the live tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kv_cases import planned
from kv_evidence import FIXTURES

RECORDED: list[dict[str, Any]] = json.loads((FIXTURES / "kv-planned.json").read_text(encoding="utf-8"))
FAMILIES = sorted({one["case"]["family"] for one in RECORDED})


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_models_come_out_as_vllm_planned_them(family: str) -> None:
    chosen = [one for one in RECORDED if one["case"]["family"] == family]
    assert len(chosen) >= 10
    for one in chosen:
        assert planned(one["case"]) == one["answer"], one["case"]
