"""Asks engines in the background which flags they take: it imports torch, and nobody waits for that."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from cockpit.errors import CockpitError
from cockpit.rig.flags import cached_flags, engine_flags
from cockpit.rig.types import Engine


class FlagAsker:
    """Each engine is asked once as long as the app lives."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], object]]] = {}
        """Those to be told, by the path of an engine that is being asked."""
        self._asked: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, engine: Engine, then: Callable[[], object]) -> None:
        """Call ``then`` from another thread once the flags are remembered; never when the engine does not say."""
        with self._lock:
            if engine.path in self._waiting:
                self._waiting[engine.path].append(then)
                return
            self._waiting[engine.path] = [then]
        # A daemon: leaving the cockpit does not wait for the answer.
        threading.Thread(target=self._ask, args=(engine,), name="flags", daemon=True).start()

    def _ask(self, engine: Engine) -> None:
        if engine.path not in self._asked:
            with contextlib.suppress(CockpitError):
                engine_flags(engine)
        with self._lock:
            self._asked.add(engine.path)
            waiting = self._waiting.pop(engine.path)
        # One that answers and cannot be remembered would be asked about for ever.
        if cached_flags(engine) is not None:
            for then in waiting:
                then()
