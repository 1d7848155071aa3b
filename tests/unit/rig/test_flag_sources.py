"""Flags that vLLM's sources name, in the forms of its versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.rig.flag_sources import unnamed_flags
from cockpit.rig.types import Engine

ARG_UTILS = """
        load_group.add_argument("--load-format", **load_kwargs["load_format"])
        cache_group.add_argument(
            "--kv-cache-memory-bytes", **cache_kwargs["kv_cache_memory_bytes"]
        )
        cache_group.add_argument("--enable-prefix-caching", action=BooleanOptionalAction)
"""
CLI_ARGS = """
class FrontendArgs(BaseFrontendArgs):
    enable_auto_tool_choice: bool = False
    tool_call_parser: str | None = None
    chat_template: str | None = None
"""


@pytest.fixture(params=["openai", "common"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """A package laid out as before and after vLLM 0.33."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "arg_utils.py").write_text(ARG_UTILS)
    (tmp_path / "entrypoints" / request.param).mkdir(parents=True)
    (tmp_path / "entrypoints" / request.param / "cli_args.py").write_text(CLI_ARGS)
    return Engine(id="e", path="/v", python="/p", package=str(tmp_path), version="0.33.0", platform="cuda")


def test_named_flags_are_found_in_every_form(engine: Engine) -> None:
    fine = ["load-format", "no-enable-prefix-caching", "disable-prefix-caching", "tool-call-parser", "chat-template"]
    assert unnamed_flags(engine, [*fine, "enable-auto-tool-choice", "no-enable-auto-tool-choice"]) == ()


@pytest.mark.parametrize(
    "name", ["swap-space", "gpu-memory-utilisation", "load-formats", "tool-call", "bytes", "bool"]
)
def test_others_are_not(engine: Engine, name: str) -> None:
    assert unnamed_flags(engine, ["load-format", name]) == (name,)


def test_without_sources_nothing_is_known(tmp_path: Path) -> None:
    engine = Engine(id="e", path="/v", python="/p", package=str(tmp_path), version="0.33.0", platform="cuda")
    assert unnamed_flags(engine, ["load-format"]) is None
