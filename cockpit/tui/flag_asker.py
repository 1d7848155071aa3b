"""Asks engines in the background which flags they take: it imports torch, and nobody waits for that."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from cockpit.errors import CockpitError
from cockpit.rig.flags import engine_flags
from cockpit.rig.types import Engine


class FlagAsker:
    """Each engine is asked once as long as the app lives."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def ask(self, engine: Engine, then: Callable[[], object]) -> None:
        """Call ``then`` from another thread once the flags are remembered; never when the engine does not say."""
        if engine.path in self._asked:
            return
        self._asked.add(engine.path)
        # A daemon: leaving the cockpit does not wait for the answer.
        threading.Thread(target=_ask, args=(engine, then), name="flags", daemon=True).start()


def _ask(engine: Engine, then: Callable[[], object]) -> None:
    with contextlib.suppress(CockpitError):
        engine_flags(engine)
        then()
