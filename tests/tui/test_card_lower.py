"""Below the toggles: findings and the command, which stays in sight however long the findings are."""

from __future__ import annotations

import msgspec
import pytest

from cockpit.launch.types import LaunchPlan
from cockpit.rules.finding import Finding, Severity
from cockpit.tui.card_rows import TOLD_BY_FORECAST, lower_rows, unfit_rows
from cockpit.tui.content import Row, row_text
from cockpit.tui.screens.card import CardScreen
from cockpit.tui.wrap import wrap

from .forecasts import TOO_BIG
from .helpers import SIZES, app_of, content_of, open_card, opened, shown, until, until_shown, words_of
from .still_life import BOOTED, StillSession, boot, observation, record
from .world import rig_of

LONG = "a reason that takes a good many words to say, more of them than one line of a terminal holds beside others"


def finding(severity: Severity, number: int = 0, text: str = LONG) -> Finding:
    return Finding(rule="r", severity=severity, subject="s", message=f"{number} {text}", fix="Do this.")


def plan(*findings: Finding) -> LaunchPlan:
    return LaunchPlan(
        slug="a/b",
        argv=("vllm", "serve", "a"),
        env={"A": "1"},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        model="a",
        served_model_name="b",
        gpus=(),
        platform="cuda",
        engine="e",
        values={},
        findings=findings,
    )


def texts(rows: list[Row]) -> list[str]:
    return [row_text(row) for row in rows]


def test_what_has_room_is_there_once_and_in_full() -> None:
    rows = texts(lower_rows([], plan(finding("warn")), 80, 10))
    assert rows[0] == f" ⚠ 0 {LONG}. Do this." and rows[1].startswith("── command ─")
    assert [row for row in rows if "findings" in row] == []


def test_where_there_is_none_warnings_have_a_line_each_and_their_words_below_the_command() -> None:
    said: list[Row] = [[(" said", "")]]
    rows = lower_rows(said, plan(*(finding("warn", number) for number in range(3))), 80, 7)
    assert texts(rows)[0] == " said"
    assert all(text.endswith("…") and len(text) == 80 for text in texts(rows)[1:4])
    assert texts(rows)[4].startswith("── command ─")
    assert any(text.startswith("── findings ─") for text in texts(rows)[5:])
    assert texts(rows)[-3:] == [f" ⚠ {number} {LONG}. Do this." for number in range(3)]


def test_below_the_command_are_only_those_that_were_cut() -> None:
    rows = texts(lower_rows([], plan(finding("block"), finding("warn", 1), finding("note", 2, "short")), 80, 5))
    assert len(rows) - len(set(rows)) == 0
    assert [row for row in rows if row.startswith(" ✕")] == [f" ✕ 0 {LONG}. Do this."]
    assert rows[-1] == f" ⚠ 1 {LONG}. Do this.", "the note is short and was there in full"


@pytest.mark.parametrize("height", [4, 40])
def test_what_the_forecast_beside_says_is_not_said_again(height: int) -> None:
    told = Finding(rule="kv-one-request", severity="block", subject="max_model_len", message=LONG, fix="Set it.")
    with_forecast = msgspec.structs.replace(plan(told, finding("note", 1)), forecast=TOO_BIG)
    beside = texts(lower_rows([], with_forecast, 80, height, beside=True))
    assert beside[0] == " ✕ does not fit: the forecast says why, and its digits what would fit"
    assert not any(LONG in row for row in beside if not row.startswith(" · "))
    alone = texts(lower_rows([], with_forecast, 80, height))
    assert alone[0] == f" ✕ {LONG}. Set it."
    only = msgspec.structs.replace(plan(told), forecast=TOO_BIG)
    assert not any("nothing stands against" in row for row in texts(lower_rows([], only, 80, height, beside=True)))


def test_too_few_gpus_are_said_by_their_finding_alone() -> None:
    few = Finding(rule="gpu-index", severity="block", subject="gpus", message="needs 4 GPUs", fix="Set gpus.")
    assert unfit_rows(msgspec.structs.replace(plan(few), forecast=TOO_BIG), 80) == []
    assert unfit_rows(msgspec.structs.replace(plan(finding("note")), forecast=TOO_BIG), 80)


def test_why_nothing_starts_is_never_cut() -> None:
    rows = lower_rows([], plan(finding("block"), finding("note", 1)), 80, 5)
    assert texts(rows)[0] == f" ✕ 0 {LONG}. Do this." and texts(rows)[1].endswith("…")


@pytest.mark.parametrize("findings", [(), (finding("warn", text="short"),), (finding("block"),)])
def test_nothing_is_said_twice_where_nothing_was_cut(findings: tuple[Finding, ...]) -> None:
    rows = texts(lower_rows([], plan(*findings), 80, 2))
    assert not any("findings" in row for row in rows) and len(rows) == len(set(rows))


async def test_that_a_server_runs_is_said_until_it_is_gone_however_fast_it_went() -> None:
    session = StillSession(rig_of(2), [observation(record("vllm/dual", 8010), "ready", boot(*BOOTED))])
    async with opened(session) as pilot:
        await until(pilot, lambda: app_of(pilot).instances)
        pilot.app.push_screen(CardScreen(session.catalog.get("vllm/dual")))
        await until_shown(pilot, "vllm-dual is being served")
        session._seen.clear()
        await until(pilot, lambda: "is being served" not in shown(pilot))


@pytest.mark.parametrize("size", SIZES)
async def test_the_command_is_in_sight_below_long_findings(size: tuple[int, int]) -> None:
    async with opened(StillSession(rig_of(2)), size) as pilot:
        card = await open_card(pilot, "vllm/qwen38-27b-int6-mixed")
        await pilot.pause()
        assert card.plan is not None and len(card.plan.findings) > 1
        assert "── command ─" in shown(pilot) and " env " in shown(pilot)
        lines = [line for one in card.plan.findings for line in wrap([(one.message, "")], size[0])]
        assert len(lines) > len(card.plan.findings), "there is one that takes more than a line"
        words = words_of(content_of(pilot, "#lower"))
        others = [one for one in card.plan.findings if one.rule not in TOLD_BY_FORECAST]
        assert others and all(words_of(one.message.rstrip(".")) in words for one in others)
        assert words_of("tight: the forecast says why") in words
