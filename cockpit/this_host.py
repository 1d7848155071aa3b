"""What planning reads of this host, whatever the slug: each fact once, when it is first needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from cockpit.api_key import find_api_key
from cockpit.rig.facts import read_facts
from cockpit.rig.flags import EngineFlags, cached_flags
from cockpit.rig.host import first_free_port
from cockpit.rig.types import Engine, HostFacts
from cockpit.supervisor import store
from cockpit.supervisor.holders import describe_holders
from cockpit.supervisor.record import InstanceRecord

FIRST_PORT = 8000


class ThisHost:
    """The host as it is in one round of planning, for one slug or for all; of a described rig only its ports."""

    def __init__(self, environ: Mapping[str, str], listen_on: str, described: bool) -> None:
        self._environ = environ
        self._listen_on = listen_on
        self.described = described
        self._flags: dict[str, EngineFlags | None] = {}

    @cached_property
    def facts(self) -> HostFacts | None:
        """None for a described rig."""
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
        """The first that neither a server has nor an instance was promised."""
        return first_free_port(self._listen_on, FIRST_PORT, taken=_promised(store.load_all()[0]))

    def flags(self, engine: Engine) -> EngineFlags | None:
        """What is remembered of an engine's flags."""
        if engine.path not in self._flags:
            self._flags[engine.path] = cached_flags(engine)
        return self._flags[engine.path]


def _promised(records: Iterable[InstanceRecord]) -> set[int]:
    """Ports of instances that may not have bound them yet: vLLM does so some ten seconds after its start."""
    return {record.port for record in records if record.ended_at is None}
