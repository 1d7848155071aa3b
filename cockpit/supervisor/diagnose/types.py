"""Symptoms and diagnoses as values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from cockpit.supervisor.boot_state import BootState, StageId
from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.number import number_of


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do about it; with ``set`` or ``env`` the cockpit can do it."""

    text: str
    set: dict[str, Any] = {}
    """Toggle id → value, as ``--set`` takes them."""
    env: dict[str, str | None] = {}
    """Variable → value; None is to be removed."""
    drops: str = ""
    """Flag that the text tells to leave out, by vLLM's name (``attention_backend``): it is there to be left out."""
    adds: str = ""
    """Flag that the text tells to add, or ``flag=value``: it is not there yet."""
    aid: bool = False
    """Whether it only shows more of the cause and cures nothing."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a server besides its log."""

    dead: bool | None = None
    """Whether its process is gone; None is not known."""
    exit_code: int | None = None
    """Negative for a signal, as Popen gives it; 128 + signal, as a shell or docker gives it, is read alike."""
    asked_for: bool = False
    """Whether somebody stopped it."""
    arguments: dict[str, Any] = {}
    """Flags of the command by vLLM's name (``max_model_len``), for a log that does not tell them."""


COLLATERAL = 3
"""Depth of what the death of one process raises in others."""


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An exception of a log, or a line that says what went wrong without being one."""

    text: str
    """``ValueError: message``, with the lines that the message goes on."""
    process: str = ""
    """``Worker_TP0``, ``EngineCore``, ``APIServer``; empty is not named."""
    depth: int = 2
    """0 worker, 1 engine, 2 API server or unknown, 3 collateral."""
    order: int = 0
    """Which came first."""
    file: str = ""
    function: str = ""
    """Of the last frame of its traceback."""
    line: int | None = None
    frames: str = ""
    """The last frames as ``file:function`` lines, innermost last."""
    modules: str = ""
    """The same with the path in the package, ``vllm/v1/engine/core.py:run_engine_core``."""
    chain: int = 0
    """Exceptions of one chain (raised while handling another) share it."""
    announced: bool = False
    """Whether a line before it said that a process failed."""
    aside: bool = False
    """Whether a thread raised it: its process goes on."""
    after_ready: bool = False
    stage: StageId = "environment"
    """Of the boot, when it was seen."""

    @property
    def place(self) -> str:
        """``file:function`` of the frame that raised it; empty is unknown."""
        return f"{self.file}:{self.function}" if self.file else ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What an explanation and its fixes are made of."""

    incident: Incident
    groups: dict[str, str]
    """Named groups of the pattern that matched; those that took no part are not there."""
    arguments: Arguments
    boot: BootState
    counts: dict[str, int]
    """How often each notice was seen, by symptom id."""
    figures: dict[str, float] = {}
    """Figures of memory from anywhere in the log: ``total_gib``, ``weights_gib``, ``utilization``; and ``capturing``
    or ``loading`` while that goes on; ``unified`` where CPU and GPU share it."""
    has_head: bool = False
    """Whether the start of the log is there."""

    def number(self, name: str) -> float | None:
        """A named group as a number, thousands separators dropped; None when it is not one."""
        return number_of(self.groups.get(name, ""))

    def find(self, pattern: str) -> float | None:
        """The first group of a pattern in the incident's text as a number; None when it is not there."""
        match = re.search(pattern, self.incident.text, re.DOTALL)
        return None if match is None else number_of(match[1])

    def in_frames(self, pattern: str) -> bool:
        """Whether a frame of the traceback, as ``file:function``, has the pattern."""
        return re.search(pattern, self.incident.frames, re.MULTILINE) is not None


Notice = Literal["", "note", "maybe", "hang", "dead", "warn", "grave"]
"""What a living server may say as well: a note; one while nothing explains a log that is not ready; the symptom of a
log that ends there, unless its server is known to live; one about a dead server; the symptom of a ready server;
that of a ready server which is of no use. Empty: it ends servers."""
Explain = Callable[[Evidence], str]
Fixes = Callable[[Evidence], list[Fix]]


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure: how it reads, what it means and what helps. The first that matches counts."""

    id: str
    patterns: tuple[str, ...]
    """Regular expressions, any of which is found in the incident's text; named groups are the figures."""
    frames: str | None = None
    """Regular expression that must also be found in the last frames (``file:function``)."""
    when: Callable[[Evidence], bool] | None = None
    """A further condition: the phase, a figure, an argument."""
    versions: str = ""
    """vLLM versions whose sources or logs have these words."""
    notice: Notice = ""
    reports: bool = False
    """Whether it only says that something failed: another known cause of the same process counts first."""
    explain: Explain
    fixes: Fixes


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says about its server."""

    healthy: bool
    """Ready, and nothing says that it died or hangs."""
    ready: bool
    """It answered requests at some time."""
    vllm_version: str | None
    symptom: str | None
    """Id in the table; None when the log shows no trouble or one that the table does not know."""
    first_exception: str | None
    """The first true exception of the deepest process, ``XxxError: message``."""
    place: str | None
    """``file:function`` that raised it."""
    explanation: str | None
    """One or two sentences with the log's own figures."""
    fixes: tuple[Fix, ...]
    """Best first."""
    notes: tuple[str, ...]
    """What else is remarkable, in one sentence each."""
    boot: BootState
