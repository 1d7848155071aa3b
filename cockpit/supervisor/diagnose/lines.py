"""A line of a log, freed of what docker, Kubernetes, journald, ray and vLLM put before its text.

A line of vLLM is ``(Process pid=N) LEVEL MM-DD HH:MM:SS [file:line] text``; any part but the text may be missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from cockpit.supervisor.logfile import clean

_MAX_CHARACTERS = 8000
_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL"
_VLLM = re.compile(
    r"(?:\((?P<process>[A-Za-z]\w*)(?:[- ]\S{1,40})? pid=\d+(?:, ip=[\d.:]+)?\)(?: |$)"
    r"|\(pid=\d+\) |\[(?P<rank>rank|default)\d+\]: ?)?"
    rf"(?:(?P<level>{_LEVELS})"
    r"(?: +(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?)?"
    r"(?: \.\.\.)?"
    r"(?: \[[^\]]{1,120}\]| [\w./-]{1,80}\.py:\d+\]|:[\w.]*:? {0,10}|(?= ))(?: |$)?"
    r")?"
)
_OUTER = re.compile(
    r"(?:> ?)+"  # a quotation in a report
    r"|\s{0,12}[|│] (?=\S| {2})"  # a build's log, an exception group
    r"|\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\] ?"
    r"|\w[\w.@-]{0,80} +\| (?!\d+/)"  # docker compose
    r"|\d{1,4}\|[\w.-]{1,40} +\| "  # pm2
    r"|\[pod/[^\]\s]{1,200}\] "  # kubectl logs --prefix
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?:[ \t]|$)"
    r"(?:std(?:out|err) [FP] )?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,100} [\w.@/-]{1,100}(?:\[\d+\])?: "  # journald
)
_WRITTEN_ESCAPES = re.compile(
    r"(?:\\x1b|\\u001b|\\033|\\e|\^\[|#033|ESC|␛)\[[\d;]{0,20}[A-Za-z]|\[\d{1,3}(?:;\d{1,3}){0,3}m"
)
_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,3}m")
_WRITTEN_BEGINNINGS = ("\\", "^[[", "#033[", "ESC[", "␛[")
_INNER_PREFIX = re.compile(
    r"(?=\((?:Vllm|Ray)?(?:Worker|EngineCore|APIServer|ApiServer)\S{0,40}(?: rank=\d+)? pid=\d+[^()]{0,30}\) )"
)
_HEAD = re.compile(
    r"\[(?:rank|default)\d+\]|\{\"|\([A-Za-z]\w*(?:[- ]\S{1,40})? pid=\d+"
    rf"|(?:{_LEVELS})(?: \d\d-\d\d| \[|:? {{2,}})"
)
"""How a line of vLLM or uvicorn begins that somebody has indented."""
_STAMPED = re.compile(rf"(?:{_LEVELS}) {{1,5}}\d\d-\d\d \d\d:\d\d:\d\d ")
_TEXTS = ("log", "message", "msg", "exc_info", "stack_trace")
"""What a JSON line has its text in: docker's driver, and loggers."""
_LEVEL_NAMES = ("level", "levelname", "severity")
_MAX_LABEL = 60
"""Characters that a launcher may put before vLLM's own prefix."""


class Line(NamedTuple):
    """One line in its parts; a part that is missing is empty."""

    process: str
    level: str
    stamp: str
    text: str


def parse(raw: str) -> list[Line]:
    """The line, or the lines that two processes wrote into one."""
    if raw[:2] == '{"' and raw[-1:] == "}":
        return [*_json(raw)]
    return _plain(raw)


def _plain(raw: str) -> list[Line]:
    if "[" in raw and raw[:1] != "(" and "m" in raw and _may_hold_written_escapes(raw):
        raw = _WRITTEN_ESCAPES.sub("", raw)
    text = _outer(raw).rstrip()
    if text[:2] == '{"' and text[-1:] == "}":
        return [*_json(text)]
    if " pid=" in text and (text[:1] != "(" or text.count(" pid=") > 1):
        first, *parts = _INNER_PREFIX.split(text)
        if not first.strip() or (parts and _is_label(first)):
            return [*map(_parsed, parts)]
        return [*map(_parsed, (first, *parts))]
    return [_parsed(text)]


def _may_hold_written_escapes(raw: str) -> bool:
    """Settles most lines ten times faster than a search for them."""
    return _COLOUR.search(raw) is not None or any(beginning in raw for beginning in _WRITTEN_BEGINNINGS)


def _outer(raw: str) -> str:
    """Without the prefixes of whoever kept the log; they may be nested."""
    if raw[:1] in " \t":
        inner = raw.lstrip()
        raw = inner if _HEAD.match(inner) else raw
    for _ in range(4):
        match = _OUTER.match(raw) if raw[:1] != "(" else None
        if match is None:
            break
        raw = raw[match.end() :]
    stamped = None if raw[:1] == "(" else _STAMPED.search(raw, 0, _MAX_LABEL + 40)
    return raw if stamped is None or not _is_label(raw[: stamped.start()]) else raw[stamped.start() :]


def _is_label(text: str) -> bool:
    """Whether what comes before vLLM's prefix is a launcher's label, not another line's text."""
    return len(text) <= _MAX_LABEL and (not text.strip() or text.rstrip()[-1] in ":])|>-")


def _parsed(text: str) -> Line:
    match = _VLLM.match(text)
    if match is None:
        return Line("", "", "", text)
    process, rank, level, stamp = match.groups("")
    return Line(process or rank, level, stamp, text[match.end() :])


def _json(raw: str) -> Iterator[Line]:
    """The lines in a JSON object, one a line of the log: docker's, or a logger's with its level and traceback."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    texts = [value[name] for name in _TEXTS if isinstance(value.get(name), str)] if isinstance(value, dict) else []
    if not texts:
        yield _parsed(raw)
        return
    told = next((value[name] for name in _LEVEL_NAMES if isinstance(value.get(name), str)), "").upper()
    level = told if told in _LEVELS.split("|") else ""
    for text in "\n".join(texts).rstrip("\r\n").split("\n"):
        for line in _plain(clean(text, _MAX_CHARACTERS)):
            yield line if line.level else line._replace(level=level)
