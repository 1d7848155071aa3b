"""Notices that a server which boots cannot be reached where it was told to listen, and says why."""

from __future__ import annotations

from cockpit.supervisor import process
from cockpit.supervisor.listeners import others_at
from cockpit.supervisor.ready import PATIENCE_SECONDS
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.silence import Silence

_LOOK_EVERY_SECONDS = 2.0
_LISTENS_WITHIN_SECONDS = 10.0
"""uvicorn listens some milliseconds after it has said that the start-up is complete."""
_ANSWERS_WITHIN_SECONDS = 60.0
"""One that listens and does not answer may be very busy, and so may one be that does not even listen yet."""
_PATIENT_SECONDS, _PATIENT_EVERY_SECONDS = 5.0, 15.0
"""How long a late one is given for an answer, and how often: whoever looks waits as long."""


class PortWatch:
    """Told at every tick of a boot; times are seconds since the spawn."""

    def __init__(self) -> None:
        self._looked_at = -_LOOK_EVERY_SECONDS
        self._others: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._ready_since: float | None = None
        self._late = False
        self._patient_at = -_PATIENT_EVERY_SECONDS

    def patience(self, seconds: float) -> float:
        """How long to wait for an answer now: on a host that is very busy it takes more than a second."""
        if not self._late or seconds - self._patient_at < _PATIENT_EVERY_SECONDS:
            return PATIENCE_SECONDS
        self._patient_at = seconds
        return _PATIENT_SECONDS

    def warning(self, record: InstanceRecord, seconds: float) -> str | None:
        """A sentence when others came to listen on a booting server's port, once; looks every two seconds."""
        if seconds - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._looked_at = seconds
            self._others = others_at(record)
        if not self._others or self._others == self._told:
            return None
        self._told = self._others
        return _kept(record, self._others)

    def unreachable(self, record: InstanceRecord, said_ready: bool, seconds: float) -> Silence | None:
        """Why a server does not answer although its log says that it is ready; None until it had time to."""
        if not said_ready:
            self._ready_since, self._late = None, False
            return None
        if self._ready_since is None:
            self._ready_since = seconds
        waited = seconds - self._ready_since
        self._late = waited >= _LISTENS_WITHIN_SECONDS
        if not self._late:
            return None
        if process.owns_port(record, record.port) is not False:
            return _mute(record, waited) if waited >= _ANSWERS_WITHIN_SECONDS else None
        return _taken(record, waited, self._others) if self._others else _deaf(record, waited)


def _taken(record: InstanceRecord, waited: float, others: tuple[str, ...]) -> Silence:
    return _alarm(
        "port-taken",
        waited,
        f"{_names(others)} has port {record.port}",
        "It will never answer there, not even once that one has ended: "
        f"`cockpit stop {record.name}`, then serve it on another port (--set port=N).",
        final=True,
    )


def _deaf(record: InstanceRecord, waited: float) -> Silence:
    return _alarm(
        "no-listener",
        waited,
        f"it does not listen on port {record.port}",
        "Another server probably had the port for a moment, or its flags name another one: "
        f"`cockpit stop {record.name}`, then start it again.",
        final=waited >= _ANSWERS_WITHIN_SECONDS,
    )


def _mute(record: InstanceRecord, waited: float) -> Silence:
    """Never final: a listener that a busy host keeps from its answer gives it in the end."""
    return _alarm(
        "no-answer",
        waited,
        f"{record.url}/health does not answer with 200",
        f"A very busy host may need longer: it is still asked. `cockpit logs {record.name}` shows its last lines; "
        f"`cockpit stop {record.name}` ends it.",
        final=False,
    )


def _alarm(kind: str, waited: float, but: str, fix: str, *, final: bool) -> Silence:
    """What is wrong since ``waited`` seconds; final where nothing more will come of it."""
    sentence = f"its log says that it is ready, but {but}"
    return Silence(id=kind, seconds=waited, alarm=True, sentence=sentence, fix=fix, final=final)


def kept_port(record: InstanceRecord) -> str | None:
    """A sentence when others listen on the port of a server that is still starting."""
    others = others_at(record)
    return _kept(record, others) if others else None


def shared_port(record: InstanceRecord) -> str | None:
    """A sentence when a server that is ready shares its port with others."""
    others = others_at(record)
    if not others:
        return None
    return (
        f"port {record.port} of {record.name} is listened on by {_names(others)} too, and each gets a part of the "
        f"requests: {_way_out(record)}"
    )


def _kept(record: InstanceRecord, others: tuple[str, ...]) -> str:
    taken = f"port {record.port}, which {record.name} is to serve on, is listened on by {_names(others)}"
    return f"{taken}: {_way_out(record)}"


def _names(others: tuple[str, ...]) -> str:
    return " and ".join(others)


def _way_out(record: InstanceRecord) -> str:
    return f"stop that one, or `cockpit stop {record.name}` and serve it on another port (--set port=N)"
