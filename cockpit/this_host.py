"""What planning reads of this host, whatever the slug: each fact once, when it is first needed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from cockpit.api_key import find_api_key
from cockpit.errors import CockpitError
from cockpit.rig.facts import read_facts
from cockpit.rig.flags import EngineFlags, cached_flags
from cockpit.rig.host import first_free_port, port_is_free, process_name
from cockpit.rig.types import Engine, HostFacts
from cockpit.supervisor import process, store
from cockpit.supervisor.foreign import port_claims
from cockpit.supervisor.holders import describe_holders
from cockpit.supervisor.listeners import meets
from cockpit.supervisor.record import InstanceRecord

FIRST_PORT = 8000
_SPAWN_SECONDS = 10.0
"""How long a cockpit may need between its record and its spawn."""


class ThisHost:
    """The host as it is in one round of planning, for one slug or for all; of a described rig only its ports."""

    def __init__(self, environ: Mapping[str, str], listen_on: str, described: bool) -> None:
        self._environ = environ
        self._listen_on = listen_on
        self.described = described
        self._flags: dict[str, EngineFlags | None] = {}

    @cached_property
    def facts(self) -> HostFacts | None:
        """What rules ask of the host beyond its GPUs, read once; None for a described rig."""
        return None if self.described else read_facts(self._environ)

    @cached_property
    def gpu_holders(self) -> dict[int, str]:
        """Who holds the memory of each GPU, by its index."""
        return {} if self.described else describe_holders()

    @cached_property
    def api_key(self) -> str | None:
        """The key that a server will ask for. Raises CockpitError as `find_api_key` does."""
        return None if self.described else find_api_key(self._environ)

    @cached_property
    def free_port(self) -> int:
        """The first that neither a server has nor an instance was promised; of another machine nothing is taken."""
        if self.described:
            return FIRST_PORT
        return first_free_port(self._listen_on, FIRST_PORT, taken=_promised(self._listen_on))

    def flags(self, engine: Engine) -> EngineFlags | None:
        """What is remembered of an engine's flags."""
        if engine.path not in self._flags:
            self._flags[engine.path] = cached_flags(engine)
        return self._flags[engine.path]


def _promised(host: str) -> set[int]:
    """Ports of servers that may not have bound them yet: vLLM does so some ten seconds after its start."""
    own = {record.port for record in store.load_all()[0] if record.ended_at is None}
    return own | {claim.port for claim in port_claims() if meets(host, claim.host)}


def _lives(record: InstanceRecord) -> bool:
    root = record.process or process.leader_writing_to(record.log)
    if root is None:  # another cockpit may be about to start it
        return abs(time.time() - record.created_at) < _SPAWN_SECONDS
    return process.is_alive(root)


def promised_to(host: str, port: int) -> str | None:
    """The living instance that has this port or will have it once it is that far, or another vLLM that will."""
    records = (record for record in store.load_all()[0] if record.port == port)
    # Not state_of: a card asks at each key, and that waits for servers that do not answer.
    own = next((record.name for record in records if record.ended_at is None and _lives(record)), None)
    claims = (claim for claim in port_claims() if claim.port == port and meets(host, claim.host))
    return own or next((process_name(claim.pid) for claim in claims), None)


def address_again(record: InstanceRecord, changed: Mapping[str, Any], default_host: str) -> dict[str, Any]:
    """Host and port for a dead instance that is started again, as toggle values.

    Those that it had, where nobody has taken them or was promised them; a port that a fix names, or the next free one
    after it. Without a port the planner takes the first free one.
    """
    host = changed.get("host", record.host)
    taken = _promised(host)
    with contextlib.suppress(CockpitError):
        if "port" in changed:
            return {"host": host, "port": first_free_port(host, changed["port"], taken)}
        if record.port not in taken and port_is_free(host, record.port):
            return {"host": host, "port": record.port}
    return {} if host == default_host else {"host": host}
