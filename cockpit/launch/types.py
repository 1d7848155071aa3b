"""The frozen result of planning: everything that the supervisor needs to start one server."""

from __future__ import annotations

from typing import Any

import msgspec

from cockpit.planner.calibration import BootSubject
from cockpit.planner.forecast_types import Forecast
from cockpit.rules.finding import Finding


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, exactly. ``argv`` never passes through a shell."""

    slug: str
    model: str
    served_model_name: str
    argv: tuple[str, ...]
    env: dict[str, str | None]
    """Only what differs from the caller's environment; None removes the variable."""
    cwd: str
    host: str
    port: int
    gpus: tuple[int, ...]
    """Indices of the GPUs it will use; empty on the CPU build."""
    platform: str
    engine: str
    """Id of the engine."""
    engine_version: str = ""
    """Of its vLLM; empty without an engine."""
    gpu_model: str = ""
    """What it runs on, e.g. ``2x NVIDIA GeForce RTX 3090`` or ``CPU``; empty is unknown."""
    values: dict[str, Any]
    """Every toggle's value, for the record and for the screen."""
    findings: tuple[Finding, ...]
    forecast: Forecast | None = None
    """Will it fit; None where nobody asked."""
    boot: BootSubject | None = None
    """What its boot can teach the next forecast; None for nothing."""
    overlays: tuple[str, ...] = ()
    """Ids of the overlays that are loaded with the server."""
    extra_env: dict[str, str | None] = {}
    """What of ``env`` neither slug nor toggles asked for: fixes of earlier deaths."""

    @property
    def url(self) -> str:
        """Where clients on this host reach it: a wildcard address becomes loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"
