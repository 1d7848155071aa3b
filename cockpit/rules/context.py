"""What every rule reads: the facts, all frozen, gathered before any rule runs."""

from __future__ import annotations

from typing import Any

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.checkpoint.types import Checkpoint
from cockpit.rig.types import Engine, HostFacts, Rig


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a rule may ask about one plan in the making."""

    slug: Slug
    checkpoint: Checkpoint | None = None
    """What the checkpoint's own files say; None when they are not on this machine: the slug's word counts then."""
    checkpoint_problem: str | None = None
    """Why files that are there cannot be read, as one sentence."""
    rig: Rig
    engine: Engine | None = None
    engine_problem: str | None = None
    """Why there is no engine, as one sentence with its fix."""
    host: HostFacts | None = None
    """Facts of this host for the rules of host.py; None when they were not gathered."""
    missing_files: tuple[str, ...] = ()
    """Whole paths that the slug's flags name and that are not on this machine."""
    gpu_holders: dict[int, str] = {}
    """GPU index → who holds its memory, as text; only GPUs that somebody holds."""
    values: dict[str, Any] = {}
    """Toggle id → value."""
    chosen: frozenset[str] = frozenset()
    """Ids that the user set; the others hold their defaults."""
    address_problem: str | None = None
    """Why the chosen host and port cannot be listened on at all; None when they can."""
    port_owner: str | None = None
    """Who listens on the chosen port already; None when it is free."""
    api_key_set: bool = False
    """Whether the server will ask for a key (VLLM_API_KEY)."""

    @property
    def gpu_indices(self) -> tuple[int, ...]:
        """GPUs that the plan uses; empty on the CPU build."""
        return tuple(self.values.get("gpus") or ())

    @property
    def capabilities(self) -> tuple[tuple[int, int], ...]:
        """Compute capabilities of the chosen GPUs, as far as they are known; none on the CPU build."""
        if self.slug.platform == "cpu":
            return ()
        chosen = self.gpu_indices
        return tuple(
            gpu.capability
            for gpu in self.rig.gpus
            if gpu.capability is not None and (not chosen or gpu.index in chosen)
        )
