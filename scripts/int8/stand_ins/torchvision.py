"""An empty torchvision for an engine without: vLLM's Qwen3.5 imports it for images, which no prompt here has."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__version__ = "0"
__path__: list[str] = []


class _Nothing(ModuleType):
    """A module whose every name is there, and is another such module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name)


class _Inside(MetaPathFinder, Loader):
    """Finds whatever is imported from below torchvision."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A spec for a module below torchvision, None for others."""
        return ModuleSpec(name, self, is_package=True) if name.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The empty module."""
        return _Nothing(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


sys.meta_path.append(_Inside())
