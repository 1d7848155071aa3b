"""The serve card of a plan that does not fit: what would fit, on a digit and in the line to type in."""

from __future__ import annotations

import pytest

from cockpit.launch.toggles import TOGGLES
from cockpit.supervisor import store

from .conftest import MakeSession
from .forecasts import FITS, TOO_BIG
from .helpers import SMALLEST, open_card, opened, shown, until, until_shown, words_of
from .still_life import StillSession
from .test_card import DENSE_W4, editor, set_by_key
from .world import rig_of


async def test_a_refused_context_says_what_would_fit(make_session: MakeSession) -> None:
    async with opened(make_session(rig_of(2)), SMALLEST) as pilot:
        await open_card(pilot, DENSE_W4)
        await set_by_key(pilot, next(one for one in TOGGLES if one.id == "max_model_len"), "300000")
        await until_shown(pilot, "300,000 is longer than the model's own 262,144")
        await pilot.press("S")
        await until(pilot, lambda: "Set max_model_len=262144 or less" in words_of(shown(pilot)))
        assert store.load_all()[0] == []


@pytest.mark.parametrize(
    ("digit", "wanted"),
    [
        ("1", {"kv_cache_dtype": "fp8_e4m3"}),
        ("2", {"max_model_len": 170_000}),
        ("3", {"gpus": (0, 1, 2, 3), "tensor_parallel": 4}),
    ],
)
async def test_a_digit_applies_a_change_that_would_fit(digit: str, wanted: dict[str, object]) -> None:
    async with opened(StillSession(rig_of(4), forecasts={DENSE_W4: TOO_BIG}), SMALLEST) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await until_shown(pilot, "✕ does not fit", "1 [k]", "2 [l]", "3 [g]")
        await pilot.press(digit)
        await until(pilot, lambda: card.chosen == wanted)
        assert card.plan is not None and {name: card.plan.values[name] for name in wanted} == wanted


async def test_a_digit_without_a_change_does_nothing() -> None:
    async with opened(StillSession(rig_of(2), forecasts={DENSE_W4: FITS})) as pilot:
        card = await open_card(pilot, DENSE_W4)
        await pilot.press("1", "2", "3")
        await pilot.pause()
        assert card.chosen == {}


async def test_the_key_of_a_toggle_proposes_the_value_that_would_fit() -> None:
    slug = "vllm/qwen38-27b-int6-mixed"
    async with opened(StillSession(rig_of(2), forecasts={slug: TOO_BIG})) as pilot:
        card = await open_card(pilot, slug)
        await pilot.press("l")
        await until_shown(pilot, "170,000 would fit · ↵ sets it")
        await until(pilot, lambda: editor(pilot).value == "170000")
        await pilot.press("enter")
        await until(pilot, lambda: card.chosen == {"max_model_len": 170_000})
        await pilot.press("r", "k")
        await until(pilot, lambda: card.chosen == {"kv_cache_dtype": "fp8_e4m3"})
