"""Flags of a real vLLM, read off its own help."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.rig.flag_words import unknown_flags
from cockpit.rig.flags import engine_flags
from cockpit.rig.types import Engine

pytestmark = pytest.mark.live


def test_the_real_cpu_engine_says_its_flags(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes some 15 s: it imports torch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nothing is remembered there
    flags = engine_flags(engine)
    assert len(flags.flags) > 300
    assert "fp8_e4m3" in (flags.flags["--kv-cache-dtype"].choices or ())
    argv = ["vllm", "serve", "m", "--no-enable-prefix-caching", "--speculative-config.method", "mtp", "-tp", "1"]
    assert unknown_flags(argv, flags) == []
    assert unknown_flags(["--disable-prefix-caching"], flags)
