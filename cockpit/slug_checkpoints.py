"""What the checkpoints of slugs are: by their files where those are here, else as the slugs declare them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from cockpit.catalog.load import Entry
from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint
from cockpit.errors import CockpitError
from cockpit.hub import cached_repos, hub_cache
from cockpit.launch.forecast import identity_of
from cockpit.planner.declared import declared_checkpoint
from cockpit.supervisor.memory_history import Measured, measured


class CheckpointAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that was looked for: neither field is set when its files are not on this machine."""

    checkpoint: Checkpoint | None = None
    problem: str | None = None


class SlugCheckpoints:
    """Each is read once, when first needed, and kept; ``forget_checkpoints`` forgets them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self._checkpoints: dict[str, CheckpointAnswer] = {}

    def forget_checkpoints(self) -> None:
        """Have them read again."""
        self._checkpoints.clear()
        self.__dict__.pop("_cached_repos", None)

    @cached_property
    def _cached_repos(self) -> frozenset[str]:
        return cached_repos(hub_cache(self.environ))

    def checkpoint_of(self, entry: Entry) -> CheckpointAnswer:
        """What the entry's checkpoint is, where its files are on this machine; read once and kept."""
        source = entry.model_source
        answer = self._checkpoints.get(source)
        if answer is None:
            here = entry.slug.weights.path is not None or source in self._cached_repos
            answer = read_checkpoint(source) if here else CheckpointAnswer()
            self._checkpoints[source] = answer
        return answer

    def declared(self, entry: Entry) -> Checkpoint | None:
        """The checkpoint as its slug declares it; None where it declares too little."""
        key = f"declared {entry.slug.name}"
        if key not in self._checkpoints:
            self._checkpoints[key] = read_declared(entry)
        return self._checkpoints[key].checkpoint

    def known_checkpoint(self, entry: Entry) -> CheckpointAnswer:
        """The same without reading anything: nothing is known until `checkpoint_of` was asked once."""
        return self._checkpoints.get(entry.model_source, CheckpointAnswer())


def read_checkpoint(source: str) -> CheckpointAnswer:
    """Look at a checkpoint whose files should be on this machine."""
    try:
        return CheckpointAnswer(checkpoint=inspect(source))
    except CockpitError as error:
        return CheckpointAnswer(problem=error.title if not error.detail else f"{error.title}: {error.detail}")


def measured_boots(checkpoint: Checkpoint | None, entry: Entry) -> Measured:
    """Earlier boots of a slug's checkpoint."""
    return Measured() if checkpoint is None else measured(identity_of(checkpoint, entry.model_source))


def read_declared(entry: Entry) -> CheckpointAnswer:
    """A checkpoint as its slug declares it; an architecture file that cannot be read declares nothing."""
    try:
        return CheckpointAnswer(checkpoint=declared_checkpoint(entry.slug.weights, entry.architecture_file))
    except CockpitError as error:
        return CheckpointAnswer(problem=error.sentence())
