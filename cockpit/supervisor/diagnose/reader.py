"""Collects, line by line and in bounded memory, what a diagnosis is made of."""

from __future__ import annotations

import re
from typing import Any

from cockpit.supervisor.access_lines import is_only_access
from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.diagnose.arguments import Arguments
from cockpit.supervisor.diagnose.figures import Figures
from cockpit.supervisor.diagnose.incidents import HARMLESS, IncidentFinder
from cockpit.supervisor.diagnose.lines import Line
from cockpit.supervisor.diagnose.matcher import Reading, first_incident, is_remarkable, notice_of
from cockpit.supervisor.diagnose.shown import shown_exception
from cockpit.supervisor.diagnose.types import Incident

_COMMANDS = ("vllm serve ", "openai.api_server", "docker run ", " --model ")
"""How a command line shows in a report; a long one goes on in lines that begin with a flag."""
WAITING = "shm-broadcast-wait"
"""The notice that is harmless in a boot however often it comes."""
_STOP = re.compile(
    r"\[shutdown\] API server: shutdown triggered|Shutting down(?:$| FastAPI)|Received (?:SIGINT|SIGTERM|signal)"
)


class TroubleReader:
    """Fed the parsed lines of a log, keeps incidents, notices and flags."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self._arguments = Arguments(known)
        self._finder = IncidentFinder(is_remarkable)
        self._notices: dict[str, Incident] = {}
        self._counts: dict[str, int] = {}
        self._figures = Figures()
        self._has_head = False
        self._stopping = False

    def boot_is_over(self) -> None:
        """The server answers: what went wrong before did no harm."""
        self._finder.boot_is_over()
        self._counts.pop(WAITING, None)

    def feed(self, line: Line, stage: Any) -> None:
        """Read one line, seen while ``stage`` of the boot ran."""
        text = line.text
        if line.level == "INFO" and is_only_access(text):
            return  # what a client asks for says nothing of the server
        self._read_arguments(text)
        self._figures.feed(text)
        notice = notice_of(text)
        if notice is not None:
            self._counts[notice] = self._counts.get(notice, 0) + 1
            known = Incident(text=text[:2000], process=line.process, after_ready=self._finder.ready, stage=stage)
            self._notices.setdefault(notice, known)
        if "hutting down" in text or "hutdown" in text or "Received S" in text:
            self._stopping = self._stopping or (_STOP.search(text) is not None and not self._failed())
        if not self._stopping and line.level not in HARMLESS:
            self._finder.feed(line, stage)

    def is_over(self, ready: bool) -> bool:
        """Whether the server that wrote so far is past its beginning, so that a first line is another server's."""
        ended = ready or self._stopping or self._finder.wrappers or self._finder.incidents
        return self._has_head and bool(ended)

    def _failed(self) -> bool:
        return bool(self._finder.wrappers or (self._finder.incidents and not self._finder.ready))

    def _read_arguments(self, text: str) -> None:
        if "non-default args" in text:
            self._has_head = True
            self._arguments.non_default(text)
        elif "args: Namespace(" in text or "LLM engine (v" in text:
            self._has_head = True
            self._arguments.config(text)
        elif text.lstrip().startswith("--") or any(word in text for word in _COMMANDS):
            self._arguments.command(text)

    def reading(self, boot: BootState) -> Reading:
        """What was found so far."""
        return Reading(
            boot=boot,
            incidents=tuple(self._finder.incidents),
            wrappers=tuple(self._finder.wrappers),
            arguments=self._arguments,
            notices=dict(self._notices),
            counts=dict(self._counts),
            figures=dict(self._figures.values),
            has_head=self._has_head or boot.facts.vllm_version is not None,
            stopping=self._stopping,
        )

    def first_exception(self, boot: BootState) -> str | None:
        """The likely root cause as one line; it means something only when the server died."""
        incident = first_incident(self.reading(boot))
        return None if incident is None else shown_exception(incident)
