"""A flag that the installed vLLM does not know is said in list and on card, though asking it takes its time."""

from __future__ import annotations

from pathlib import Path

from cockpit.rig.flags import cached_flags
from cockpit.session import Session
from cockpit.supervisor import store

from .helpers import cell_of, mark, open_card, opened, until, until_shown
from .world import cpu_slug


def with_sources(session: Session) -> None:
    """The fake CPU engine gets a source file that names one flag."""
    package = next(Path(engine.package) for engine in session.engines if engine.platform == "cpu")
    (package / "engine").mkdir()
    (package / "engine" / "arg_utils.py").write_text('group.add_argument("--load-format", default="auto")\n')


async def test_the_engine_is_asked_in_the_background_and_the_card_says_what_it_refuses(session: Session) -> None:
    with_sources(session)
    file = cpu_slug("cpu/odd")
    file.write_text(file.read_text().replace("load-format: dummy", "load-format: dummy, swap-space: 4"))
    async with opened(session) as pilot:
        await until(pilot, lambda: cell_of(pilot, "cpu/odd", "fits") == "blocked: flags")
        await mark(pilot, "cpu/odd")
        await until_shown(pilot, "blocked         vLLM 0.32.0 does not know --swap-space")
        await open_card(pilot, "cpu/odd")
        await until_shown(pilot, "does not know --swap-space")
        await pilot.press("S")
        await until_shown(pilot, "not started")
    assert store.load_all()[0] == []


async def test_a_slug_whose_flags_are_in_the_sources_asks_nobody(session: Session) -> None:
    with_sources(session)
    cpu_slug("cpu/plain")
    async with opened(session) as pilot:
        card = await open_card(pilot, "cpu/plain")
        await until(pilot, lambda: card.plan is not None)
        await pilot.pause(0.5)
    engine = next(engine for engine in session.engines if engine.platform == "cpu")
    assert cached_flags(engine) is None
