"""The first real exception of a log: of the deepest process, and never a wrapper that only reports it."""

from __future__ import annotations

import re

_MAX_CHARACTERS = 1000
OPENINGS = r"(?:\w+\.){0,12}[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b|  Value error, |vllm(?: serve)?: error: "
"""How the texts begin that matter here."""
_EXCEPTION = re.compile(r"(?:\w+\.){0,12}[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:$|: )|vllm(?: serve)?: error: ")
_WRAPPER = re.compile(
    r"EngineDeadError|Engine core initialization failed|EngineCore (?:failed|encountered)"
    r"|Worker ?[Pp]roc\w* .*(?:died|failed)|WorkerProc initialization failed|Executor failed"
)
_HARMLESS_LEVELS = ("DEBUG", "INFO", "WARNING")
"""A healthy boot may log hundreds of tracebacks as warnings."""


class ExceptionFinder:
    """Fed the lines of a log, keeps one exception for each depth of process."""

    def __init__(self) -> None:
        self._found: dict[int, str] = {}
        self._validation_depth: int | None = None
        self._keep_first = True

    @property
    def found(self) -> str | None:
        """``XxxError: message`` of a worker, else of an engine, else of the API server; None when there is none."""
        return self._found[min(self._found)] if self._found else None

    def boot_is_over(self) -> None:
        """Forget what did not keep the server from getting ready; from here on the last exception counts."""
        self._found.clear()
        self._keep_first = False

    def feed(self, process: str | None, level: str | None, text: str) -> None:
        """Read the text of one line, with the process and level that its prefix named."""
        if level in _HARMLESS_LEVELS:
            return
        if text.startswith("  Value error, "):
            self._add_reason(text.strip())
        elif _EXCEPTION.match(text) and not _WRAPPER.search(text):
            depth = _depth(process)
            self._validation_depth = None
            if depth in self._found and self._keep_first:
                return
            self._found[depth] = text[:_MAX_CHARACTERS]
            if "validation error" in text:
                self._validation_depth = depth

    def _add_reason(self, reason: str) -> None:
        """Pydantic says what is wrong on the line after the exception's own."""
        depth, self._validation_depth = self._validation_depth, None
        if depth is not None:
            self._found[depth] = f"{self._found[depth]}: {reason}"[:_MAX_CHARACTERS]


def _depth(process: str | None) -> int:
    if process is not None and process.startswith(("Worker", "VllmWorker")):
        return 0
    return 1 if process is not None and process.startswith("EngineCore") else 2
