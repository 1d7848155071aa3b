"""Fixtures in YAML, read by libyaml where there is one: every worker reads all of them before its first test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(file: Path) -> Any:
    """What a file of ours says."""
    return yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)
