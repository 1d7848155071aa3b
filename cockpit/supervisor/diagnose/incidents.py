"""The exceptions of a log, each with its process, place and chain; and the lines that only report one."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

import msgspec

from cockpit.supervisor.boot_state import StageId
from cockpit.supervisor.diagnose.lines import Line
from cockpit.supervisor.diagnose.types import COLLATERAL, Incident
from cockpit.supervisor.diagnose.wrappers import is_wrapper

_MAX_TEXT = 3000
_MAX_GOING_ON = 8
_MAX_FRAMES = 60
_MAX_STREAMS = 64
_KEPT = 32
"""Incidents of one depth that are kept: the first ones of a boot, the last ones of a server."""
HARMLESS = frozenset(("DEBUG", "INFO", "WARNING"))
"""A healthy boot may log hundreds of tracebacks at these levels."""

_EXCEPTION = re.compile(
    r"\s{0,40}(?:ERROR: )?(?:\w+\.){0,12}[A-Z]\w{0,100}"
    r"(?:Error(?:_\w{1,100})?|Exception|Interrupt|Exit|Expired|Failed|OutOfResources)"
    r"(?:: ?|\s*$|\s+\([^()]{0,200}\)\s*$)"
)
_IN_TRACEBACK = re.compile(r"(?:[A-Za-z_]\w*\.){0,12}(?:[A-Z]\w*|\w*error)(?:: |:?\s*$)")
_USAGE = re.compile(r"(?:[\w.-]{1,60}\.py|vllm(?: \w[\w-]*)?): error: ")
_REASON = re.compile(r"\s*(?:Value error|Assertion failed), ")
"""Pydantic says what is wrong on the line after the exception's own."""
_QUOTED = re.compile(r"(?:RuntimeError: )?Worker failed with error ['\"](?P<error>.+?)['\"], please check the stack")
_REPORTED = re.compile(
    r"Exception in worker \S+ while processing method (?P<method>\w+): (?P<error>.+?)"
    r"(?:, Traceback \(most recent call last\):)?$"
)
"""V0's workers say the error before its traceback."""
_THEN_TRACEBACK = ", Traceback (most recent call last):"
"""How the last line of such an error ends."""
_WRITTEN = re.compile(
    r"(?P<type>(?:\w+\.)*[A-Z]\w*(?:Error|Exception))\((?P<quote>['\"])(?P<words>.+)(?P=quote),?\)$"
)
"""``RuntimeError('words')``, as V0's engine logs an exception before its traceback."""
_BUILD = re.compile(r"(?:Ninja build failed|Error building extension)")
_BUILD_TROUBLE = re.compile(r"error\b|fatal|not found|[Kk]illed|No such file|FAILED")
_FRAME = re.compile(
    r'[\s|+]*File ["“](?P<path>[^"”]{1,500})["”](?:, line (?P<line>\d{1,9}))?(?:, in (?P<function>\S{1,200}))?'
)
_PACKAGES = ("site-packages/", "dist-packages/", "/vllm/")
"""What a package's files lie in; a clone of vLLM has its package in a folder of the same name."""
_PYTHON = re.compile(r"/lib(?:64)?/python3\.\d+/")
_KERNEL = re.compile(
    r"NVRM: |AMD-Vi: |Out of memory: Killed process|oom-kill:|killed by the OOM killer|result "
    r"'oom-kill'|oom[_-]kill event"
)
"""The kernel's own word: it comes before what processes make of it."""
_NO_TROUBLE = re.compile(
    r", retrying \d+ of \d+$|thrown while requesting|Retrying in \d"
    r"|Cannot use FA version|Unable to register cu\w+ factory|Error in cpuinfo"
)
"""Errors by their level that healthy boots have too."""
_ASIDE = re.compile(r"\s*Exception (?P<where>ignored in|in thread)\b")
"""What comes before a traceback that ends no process: of a destructor, of a thread."""
_LINKS = ("During handling of the above exception", "The above exception was the direct cause")
_ANNOUNCES = re.compile(
    r"EngineCore (?:\w+ )?(?:failed|encountered|hit)|WorkerProc (?:failed|hit)|^Process \S+:\s*$|Exception in worker"
    r"|Error executing method"
)
_COLLATERAL = re.compile(
    r"\s*(?:\w+\.)*(?:BrokenPipeError|EOFError|ConnectionResetError|CancelledError|KeyboardInterrupt|SystemExit)\b"
    r"|\s*(?:RuntimeError: cancelled$|ChildProcessError: worker died)"
    r"|.{0,200}(?:Connection (?:closed|reset) by peer|remote process exited)"
    r"|.{0,120}(?:recvValue|recvBytes|sendBytes|recv, got 0 bytes|Broken pipe)"
    r"|\s*AttributeError: '\w*Executor' object has no attribute '(?:workers|io_thread_pool|rpc_broadcast_mq)'"
)
"""What the death of one process raises in others."""


class _Stream:
    """One process's lines: its traceback so far and the message that goes on."""

    def __init__(self) -> None:
        self.frames: deque[tuple[str, str, int | None]] = deque(maxlen=_MAX_FRAMES)
        """Module path, function and line of each frame."""
        self.in_traceback = False
        self.after_frame = False
        self.indent = 0
        """Of the traceback's first line, or of a frame without one: what is indented deeper is its code."""
        self.linked = False
        self.aside = ""
        """``ignored in`` or ``in thread`` when the next traceback, or this one, is of such."""
        self.announced = False
        self.chain = 0
        self.parts: list[str] = []
        self.key: tuple[int, int] | None = None
        """Depth and order of the incident whose message may go on."""

    def close(self) -> None:
        """End a traceback, and a message that went on."""
        self.in_traceback = self.after_frame = False
        self.frames.clear()
        self.key = None

    def add_frame(self, frame: re.Match[str], text: str) -> None:
        """Take one ``File "…", line N, in function``."""
        self.key = None
        if not self.in_traceback and not self.after_frame:
            self.indent = _indent(text)
        number = frame["line"]
        self.frames.append(
            (module_path(frame["path"]), frame["function"] or "", None if number is None else int(number))
        )
        self.after_frame = True


class IncidentFinder:
    """Fed the lines of a log, keeps its incidents in bounded memory."""

    def __init__(self, is_remarkable: Callable[[str], bool]) -> None:
        self._is_remarkable = is_remarkable
        """Whether a text that is no exception reads like a symptom."""
        self._streams: dict[str, _Stream] = {}
        self._kept: dict[int, dict[int, Incident]] = {}
        self._next = 0
        self.wrappers: deque[str] = deque(maxlen=8)
        """The last reports of a failure elsewhere, of the boot or since it was over."""
        self.ready = False

    def boot_is_over(self) -> None:
        """Forget what did not keep the server from getting ready; from here on the last incidents count."""
        self._kept.clear()
        self._streams.clear()
        self.wrappers.clear()
        self.ready = True

    @property
    def incidents(self) -> list[Incident]:
        """In the order in which they came."""
        found = [one for kept in self._kept.values() for one in kept.values()]
        return sorted(found, key=lambda one: one.order)

    def feed(self, line: Line, stage: StageId) -> None:
        """Read one line of the boot's ``stage``."""
        text = line.text
        if line.level in HARMLESS or not text:
            return
        stream = self._stream(line.process)
        if _NO_TROUBLE.search(text):
            return
        reported = _REPORTED.match(text) if "Exception in worker" in text else None
        if reported is not None:
            self._add_reported(stream, line, stage, reported)
            return
        if self._is_structure(stream, text):
            return
        written = _WRITTEN.match(text)
        if written is not None:
            text = f"{written['type']}: {written['words'].replace(chr(92) + 'n', ' ').strip()}"
        quoted = _QUOTED.search(text) if "Worker failed with" in text else None
        if quoted is not None:
            text = quoted["error"]
        elif is_wrapper(text):
            self._note_wrapper(stream, text)
            return
        going_on = stream.key is not None
        belongs = going_on and (written or _REASON.match(text) or stream.parts[-1].endswith(":"))
        if not belongs and _is_exception(stream, text):
            self._add(stream, line, stage, text, is_exception=True)
        elif going_on:
            self._go_on(stream, text)
        elif quoted is not None or self._is_remarkable(text):
            self._add(stream, line, stage, text, is_exception=False)

    def _note_wrapper(self, stream: _Stream, text: str) -> None:
        self.wrappers.append(text[:_MAX_TEXT])
        stream.announced = stream.announced or _ANNOUNCES.search(text) is not None
        stream.close()

    def _stream(self, process: str) -> _Stream:
        stream = self._streams.get(process)
        if stream is None:
            if len(self._streams) >= _MAX_STREAMS:
                self._streams.clear()
            stream = self._streams[process] = _Stream()
        return stream

    def _is_structure(self, stream: _Stream, text: str) -> bool:
        """Whether the line belongs to a traceback without being its exception."""
        aside = _ASIDE.match(text) if "Exception i" in text else None
        if aside is not None:
            stream.close()
            stream.aside = aside["where"]
            return True
        if "Traceback (most recent call last)" in text:
            if stream.key is not None and text.endswith(_THEN_TRACEBACK):
                self._go_on(stream, text.removesuffix(_THEN_TRACEBACK))
            announced = stream.announced or _ANNOUNCES.search(text) is not None
            self._begin(stream, announced, _indent(text))
            return True
        frame = _FRAME.match(text) if "File " in text else None
        if frame is not None:
            stream.add_frame(frame, text)
            return True
        if stream.after_frame and _indent(text) > stream.indent:
            return True
        if text.lstrip().startswith(_LINKS):
            stream.linked, stream.key = True, None
            return True
        return False

    def _begin(self, stream: _Stream, announced: bool, indent: int) -> None:
        if not stream.linked:
            self._next += 1
            stream.chain = self._next
        stream.close()
        stream.in_traceback, stream.linked = True, False
        stream.announced, stream.indent = announced, indent

    def _add(self, stream: _Stream, line: Line, stage: StageId, text: str, is_exception: bool) -> None:
        aside, stream.aside = stream.aside, ""
        if aside == "ignored in" and is_exception:
            stream.close()
            return
        if not stream.in_traceback:
            self._next += 1
            stream.chain = self._next
        self._next += 1
        frames = list(stream.frames) if is_exception else []
        kernel = not is_exception and _KERNEL.search(text) is not None
        depth = COLLATERAL if aside or _COLLATERAL.match(text) else depth_of(line.process)
        module, function, number = _raised_in(frames)
        incident = Incident(
            text=text.strip()[:_MAX_TEXT],
            process=line.process,
            depth=0 if kernel else depth,
            order=self._next,
            file=_file_of(module),
            function=function,
            line=number,
            frames="\n".join(f"{_file_of(path)}:{inside}" for path, inside, _ in frames),
            modules="\n".join(f"{path}:{inside}" for path, inside, _ in frames),
            chain=stream.chain,
            announced=kernel or stream.announced,
            aside=bool(aside),
            after_ready=self.ready,
            stage=stage,
        )
        stream.close()
        if is_exception:
            self._forget_announcement(incident)
        if self._keep(incident) and is_exception:
            stream.parts, stream.key = [incident.text], (incident.depth, incident.order)

    def _add_reported(self, stream: _Stream, line: Line, stage: StageId, reported: re.Match[str]) -> None:
        self._begin(stream, announced=True, indent=0)
        self._next += 1
        incident = Incident(
            text=reported["error"][:_MAX_TEXT],
            process=line.process or "VllmWorker",
            depth=0,
            order=self._next,
            frames=f"worker:{reported['method']}",
            chain=stream.chain,
            announced=True,
            after_ready=self.ready,
            stage=stage,
        )
        self._keep(incident)
        if not line.text.endswith(":"):
            stream.parts, stream.key = [incident.text], (0, incident.order)

    def _forget_announcement(self, incident: Incident) -> None:
        """Drop the line that gave an exception's message, without its type, before its traceback."""
        message = incident.text.partition(": ")[2]
        kept = self._kept.get(incident.depth, {})
        for order, earlier in [*kept.items()][-2:]:
            if message and not earlier.file and earlier.text.partition("\n")[0] == message:
                del kept[order]

    def _keep(self, incident: Incident) -> bool:
        kept = self._kept.setdefault(incident.depth, {})
        if len(kept) >= _KEPT:
            if not self.ready:
                return False
            kept.pop(next(iter(kept)))
        kept[incident.order] = incident
        return True

    def _go_on(self, stream: _Stream, text: str) -> None:
        """The message of an exception goes on for a few lines."""
        if stream.key is None:
            return
        if _BUILD.search(stream.parts[0]) and not _BUILD_TROUBLE.search(text):
            return
        depth, order = stream.key
        known = self._kept.get(depth, {}).get(order)
        stream.parts.append(text.strip())
        if known is None or len(stream.parts) > _MAX_GOING_ON:
            stream.key = None
            return
        whole = "\n".join(stream.parts)[:_MAX_TEXT]
        self._kept[depth][order] = msgspec.structs.replace(known, text=whole)


def module_path(path: str) -> str:
    """A file of a traceback from its package on, ``vllm/v1/engine/core.py``; of no package, from its folder on."""
    path = path.replace("\\", "/")
    for mark in _PACKAGES:
        _, found, inside = path.rpartition(mark)
        if found:
            return f"vllm/{inside}" if mark == "/vllm/" else inside
    library = _PYTHON.search(path)
    return path[library.end() :] if library is not None else "/".join(path.split("/")[-2:])


def _file_of(module: str) -> str:
    return module.rpartition("/")[2]


def _raised_in(frames: list[tuple[str, str, int | None]]) -> tuple[str, str, int | None]:
    """The last frame that is not pydantic's, which only carries what a validator raised."""
    plain = [frame for frame in frames if not frame[0].startswith("pydantic/")]
    return (plain or frames or [("", "", None)])[-1]


def depth_of(process: str) -> int:
    """0 worker, 1 engine, 2 API server or a process that is not named."""
    if process.startswith(("Worker", "VllmWorker", "RayWorker", "rank", "default")):
        return 0
    return 1 if process.startswith("EngineCore") else 2


def _is_exception(stream: _Stream, text: str) -> bool:
    if _EXCEPTION.match(text) or _USAGE.match(text) or _REASON.match(text):
        return True
    return stream.after_frame and _IN_TRACEBACK.match(text.strip()) is not None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
