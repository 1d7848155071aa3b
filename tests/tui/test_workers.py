"""Threads of the screen: they sleep without waking up, and end when they are no longer wanted."""

from __future__ import annotations

import threading
import time

from textual.app import App
from textual.worker import get_current_worker

from cockpit.errors import CockpitError
from cockpit.tui.workers import cancelled, make_room, run_in_thread, sleep


class Sleeping(App[None]):
    """One thread that sleeps for a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended = threading.Event(), threading.Event()
        self.warnings: list[str] = []

    def on_mount(self) -> None:
        make_room()

    def follow(self) -> None:
        worker = get_current_worker()
        self.begun.set()
        while not cancelled(worker):
            sleep(60.0)
        self.ended.set()

    def fail(self) -> None:
        raise CockpitError("no room", "the disk is full", "Make room.")


async def test_a_thread_that_sleeps_ends_at_once_when_its_worker_is_cancelled_or_the_app_ends() -> None:
    app = Sleeping()
    async with app.run_test() as pilot:
        run_in_thread(app, app.follow, "follow", lambda *_: None)
        await pilot.pause()
        assert app.begun.wait(30.0)
        app.workers.cancel_group(app, "follow")
        await pilot.pause()
        assert app.ended.wait(30.0)
        app.begun.clear()
        app.ended.clear()
        run_in_thread(app, app.follow, "follow", lambda *_: None)
        await pilot.pause()
        assert app.begun.wait(30.0)
        began = time.monotonic()
    assert app.ended.wait(30.0)
    assert time.monotonic() - began < 50.0


async def test_a_failure_of_a_thread_is_a_warning() -> None:
    app = Sleeping()
    async with app.run_test() as pilot:
        run_in_thread(app, app.fail, "fail", lambda title, text: app.warnings.append(f"{title}: {text}"))
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.warnings == ["no room: the disk is full Make room."]
