"""Forecasts against what vLLM printed, before and after a boot was measured."""

from __future__ import annotations

import msgspec
import pytest
from forecast_evidence import BOOTS, Recorded, card, forecast_of_boot, weights_of

from cockpit.planner.calibration import lesson_of, nearest
from cockpit.planner.forecast import forecast
from cockpit.planner.forecast_types import Forecast
from cockpit.units import GIB


def learned(one: Recorded, of: Recorded) -> Forecast:
    """The forecast of a boot after another was measured."""
    model, settings = one.model, one.settings
    weights = weights_of(model, settings)
    boot = nearest([of.boot], one.subject)
    assert boot is not None
    return forecast(model, settings, card(), weights, lesson_of(boot, model, settings, weights))


@pytest.mark.parametrize("one", BOOTS, ids=[one.log for one in BOOTS])
def test_the_pool_is_within_3_percent_and_within_1_once_measured(one: Recorded) -> None:
    printed = one.facts.available_kv_gib
    assert printed is not None
    before, after = forecast_of_boot(one), learned(one, one)
    first, second = before.per_gpu[0].kv.bytes / GIB, after.per_gpu[0].kv.bytes / GIB
    print(
        f"{one.log:30} printed {printed:7.2f} GiB  forecast {first:7.2f} ({first / printed - 1:+.2%})"
        f"  learned {second:7.2f} ({second / printed - 1:+.2%})"
    )
    if one.facts.capacity_tokens is not None:
        assert after.kv is not None and after.kv.capacity_tokens == one.facts.capacity_tokens
    assert abs(first / printed - 1) < 0.03
    assert abs(second / printed - 1) < 0.01
    assert abs(first - printed) <= (before.error_bytes or 0) / GIB
    assert abs(second - printed) <= (after.error_bytes or 0) / GIB + 0.005
    assert (after.error_bytes or 0) < (before.error_bytes or 0)
    assert after.learned_from is not None and after.learned_from.exact
    assert (after.basis, before.basis) == ("measured", "estimated")


def test_parts_of_a_measured_boot_are_those_it_printed() -> None:
    one = BOOTS[0]
    gpu, facts = learned(one, one).per_gpu[0], one.facts
    printed = (facts.weights_gib, facts.activation_gib, facts.graphs_gib, facts.non_torch_gib)
    assert printed == (5.71, 1.29, 1.03, 0.22)
    found = (gpu.weights, gpu.activation, gpu.graphs, gpu.overhead)
    for part, size in zip(found, printed, strict=True):
        assert size is not None and abs(part.bytes / GIB - size) < 0.02
        assert part.basis == "measured"


def test_a_boot_with_other_flags_corrects_too_and_says_that_it_is_not_the_same() -> None:
    one = BOOTS[0]
    longer = one._replace(max_model_len=32768, utilization=0.8, max_num_seqs=128)
    result = learned(longer, one)
    assert result.learned_from is not None and not result.learned_from.exact
    budget = result.per_gpu[0].budget_bytes / GIB
    # What is beside the pool hardly depends on them: 128.62 − 121.40 GiB.
    assert abs(budget - result.per_gpu[0].kv.bytes / GIB - 7.22) < 0.1


@pytest.mark.parametrize(
    "change",
    [{"eager": True}, {"int8": True}, {"optimization_level": 1}, {"checkpoint": "compressed-tensors-w4"}],
)
def test_other_code_and_other_weights_teach_nothing(change: dict[str, object]) -> None:
    one = BOOTS[0]
    assert nearest([one.boot], one._replace(**change).subject) is None


def test_the_closest_boot_teaches_and_of_equals_the_latest() -> None:
    one = BOOTS[0]
    far = one._replace(max_num_seqs=4, max_model_len=8192).boot
    near = one._replace(max_model_len=8192).boot
    newer = msgspec.structs.replace(near, at=2.0)
    assert nearest([far, near, newer], one.subject) == newer
    assert nearest([far, one.boot, newer], one.subject) == one.boot
