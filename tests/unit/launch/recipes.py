"""Entries, rigs and facts for planning, and ways to read a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Slug, Weights
from cockpit.launch.plan import Facts, make_plan, parse_settings
from cockpit.launch.types import LaunchPlan
from cockpit.rig.types import Engine, Gpu, Rig

W4 = Weights(format="auto-round", repo="owner/model", bits=4, symmetric=True, vision=True, mtp=True)
ENGINE = Engine(
    id="e", path="/e/bin/vllm", python="/e/bin/python", package="/e/vllm", version="0.33.0", platform="cuda"
)


def rig(*names: str, capability: tuple[int, int] = (8, 6), wsl: bool = False) -> Rig:
    gpus = tuple(Gpu(index=at, uuid=f"GPU-{at}", name=name, capability=capability) for at, name in enumerate(names))
    return Rig(gpus=gpus, wsl=wsl)


RTX = rig(*["NVIDIA GeForce RTX 3090"] * 4)
HOPPER = rig(*["NVIDIA H200"] * 2, capability=(9, 0))


def facts(environ: dict[str, str] | None = None, **changes: Any) -> Facts:
    return Facts(
        **{"rig": RTX, "engine": ENGINE, "environ": environ or {}, "free_port": 8000, "cwd": "/home"} | changes
    )


def entry(weights: Weights = W4, **fields: Any) -> Entry:
    slug = Slug(**{"name": "vllm/a", "model": "A", "weights": weights, "max_model_len": 4096} | fields)
    return Entry(slug=slug, file=Path("/recipes/a.yaml"), shipped=False)


def plan(*settings: str, of: Entry | None = None, with_facts: Facts | None = None) -> LaunchPlan:
    """The plan for ``--set`` settings."""
    return make_plan(of or entry(), parse_settings(settings), with_facts or facts())


def flags(planned: LaunchPlan) -> dict[str, Any]:
    """argv's flags: a bare one is True, one word is itself, several are a list, JSON is read."""
    found: dict[str, list[str]] = {}
    for word in planned.argv[3:]:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            assert name not in found, f"--{name} is given twice"
            found[name] = [value] if equals else []
        else:
            found[list(found)[-1]].append(word)
    return {name: _value(words) for name, words in found.items()}


def _value(words: list[str]) -> Any:
    if not words:
        return True
    if len(words) > 1:
        return words
    return json.loads(words[0]) if words[0].startswith("{") else words[0]
