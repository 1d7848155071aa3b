"""Several servers followed at once, each in a thread of its own: one that is slow or dead delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import cached_property
from urllib.parse import urlsplit

import msgspec

from cockpit.errors import CockpitError
from cockpit.supervisor.boot import boot_of
from cockpit.telemetry.aging import aged
from cockpit.telemetry.clock import elapsed
from cockpit.telemetry.fetch import metrics_url
from cockpit.telemetry.frame import Frame, State
from cockpit.telemetry.pool import LogPool, pool_of
from cockpit.telemetry.sampler import WINDOW_SECONDS, Sampler

MAX_SERVERS = 64


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One server to follow."""

    name: str
    """Of the instance or the other server; of a URL its host and port."""
    url: str | None
    """None for a server whose address is not known: it has a row without figures."""
    state: State
    model: str = ""
    log: str = ""
    """Of an instance of this host: what its boot said of the KV pool stands in where /metrics does not."""
    started_at: float = 0.0
    gets_key: bool = False
    """The user named its address: it is sent the API key if it asks for one."""
    is_listed: bool = True
    """It has a name among the servers of this host, and not only a URL."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one server now."""

    target: Target
    frame: Frame | None = None
    """None before the first answer or failure."""
    problem: str | None = None
    """Why it is not followed at all."""


def url_target(url: str) -> Target:
    """A server that is known by its URL alone. Raises CockpitError on one that cannot be used."""
    return Target(name=place_of(url), url=url, state="foreign", gets_key=True, is_listed=False)


def unique_targets(urls: Sequence[str]) -> tuple[Target, ...]:
    """Servers by URL in the order given; the same place given twice counts once. Raises CockpitError on a bad URL."""
    return tuple({target.name: target for target in map(url_target, urls)}.values())


def place_of(url: str) -> str:
    """Host, port and path of a URL: never the user and password in it."""
    parts = urlsplit(metrics_url(url))
    return parts.netloc.rpartition("@")[2] + parts.path.removesuffix("/metrics")


class FleetWatch:
    """Looks at all of them, and says at any moment how they last were; nothing here waits for a server."""

    def __init__(
        self, api_key: str | None = None, window_seconds: float = WINDOW_SECONDS, every_seconds: float = 1.0
    ) -> None:
        self._api_key = api_key
        self._window_seconds = window_seconds
        self._every_seconds = every_seconds
        self._followers: dict[str, _Follower] = {}
        self._targets: tuple[Target, ...] = ()
        self._problems: dict[str, str] = {}
        self._resting = False

    def follow(self, targets: Sequence[Target]) -> None:
        """Follow these from now on, in this order, and no others; the first 64 of them."""
        self._targets = tuple(targets[:MAX_SERVERS])
        wanted = {_key(target): target for target in self._targets}
        for key in self._followers.keys() - wanted.keys():
            self._followers.pop(key).stop()
        for key, target in wanted.items():
            if key in self._followers:
                self._followers[key].target = target
            elif target.url is not None and key not in self._problems:
                self._begin(key, target, target.url)

    def _begin(self, key: str, target: Target, url: str) -> None:
        api_key = self._api_key if target.gets_key else None
        try:
            self._followers[key] = _Follower(target, url, api_key, self._window_seconds, self._every_seconds)
        except CockpitError as error:
            self._problems[key] = error.sentence()
            return
        self._followers[key].resting = self._resting

    def looks(self) -> tuple[Look, ...]:
        """Every target as it last was, its figures as old as they are by now; raises a bug of a thread."""
        return tuple(self._look(target) for target in self._targets)

    def _look(self, target: Target) -> Look:
        follower = self._followers.get(_key(target))
        if follower is None:
            return Look(target=target, problem=self._problems.get(_key(target), "its address is not known"))
        return follower.look()

    def rest(self, resting: bool) -> None:
        """Ask nobody for a while, or go on."""
        self._resting = resting
        for follower in self._followers.values():
            follower.resting = resting

    def close(self) -> None:
        """End the threads; one that hangs in a name server's silence ends by itself."""
        for follower in self._followers.values():
            follower.stop()
        self._followers.clear()


def _key(target: Target) -> str:
    """A server that came back elsewhere or was started anew is another one."""
    return f"{target.name} {target.url} {target.started_at}"


class _Follower:
    """One server and the thread that asks it. Raises CockpitError on a URL that cannot be used."""

    def __init__(
        self, target: Target, url: str, api_key: str | None, window_seconds: float, every_seconds: float
    ) -> None:
        self.target = target
        self.resting = False
        self._every_seconds = every_seconds
        self._sampler = Sampler(
            url, api_key, window_seconds, read_gpus=False, read_host=False, log_pool=lambda: self._log_pool
        )
        self._newest: tuple[float, Frame] | None = None
        self._problem: str | None = None
        self._bug: Exception | None = None
        self._stopped = threading.Event()
        # Of its own, as the pool that Textual's workers share has six threads on two cores.
        threading.Thread(target=self._run, daemon=True, name=f"figures of {target.name}").start()

    @cached_property
    def _log_pool(self) -> LogPool | None:
        """Asked for only once the server serves; its boot is over then."""
        boot = boot_of(self.target.log, self.target.started_at) if self.target.log else None
        return None if boot is None else pool_of(boot.facts)

    def look(self) -> Look:
        """How it last was."""
        if self._bug is not None:
            raise self._bug
        if self._newest is None:
            return Look(target=self.target, problem=self._problem)
        at, frame = self._newest
        return Look(target=self.target, frame=aged(frame, elapsed() - at), problem=self._problem)

    def stop(self) -> None:
        """Without waiting."""
        self._stopped.set()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                if not self.resting:
                    self._ask()
                self._stopped.wait(max(0.05, began + self._every_seconds - time.monotonic()))
        except Exception as error:  # noqa: BLE001 - raised to the one who looks, where the top-level guard is
            self._bug = error
        finally:
            self._sampler.close()

    def _ask(self) -> None:
        try:
            frame = self._sampler.tick(time.time(), self.target.state)
            self._newest, self._problem = (elapsed(), frame), None
        except CockpitError as error:
            self._problem = error.sentence()
