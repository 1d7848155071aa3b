"""YAML without surprises: safe, no duplicate keys, no aliases or tags, ``on`` is a word, errors carry their line."""

from __future__ import annotations

import math
import re
import unicodedata
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from cockpit import paths
from cockpit.errors import CockpitError

_FIX = "Correct that line and run the command again."
_FIX_FILE = "Correct the file and run the command again."
_FIX_EMPTY = "Write its keys into it, or take the file away."
MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
"""Levels of nesting. PyYAML takes minutes over some 20,000 open brackets, and a recipe has four."""
_SHOWN = 60
"""Characters of the file's own text that an error repeats at most."""
_T = TypeVar("_T")
_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]")


class _Resolver(yaml.resolver.BaseResolver):
    """Scalars as YAML 1.2 core has them: PyYAML's 1.1 reads ``on`` as true and ``1:30`` as 90."""


_Resolver.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Resolver.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])
_Resolver.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Resolver.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


class _PurePython(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """Events without libyaml, which a PyYAML built from source may lack: five times slower."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


_Events: Any = getattr(yaml.cyaml, "CParser") if yaml.__with_libyaml__ else _PurePython  # noqa: B009 - unknown to its stubs


class _Loader(yaml.composer.Composer, _Events, _Resolver):  # type: ignore[misc]
    """Composes nodes only: values are built below, so that nothing in a file can construct anything."""

    def __init__(self, text: str, origin: str) -> None:
        self.origin = origin
        self.depth = 0
        _Events.__init__(self, text)
        yaml.composer.Composer.__init__(self)
        _Resolver.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """One node, refused before it is read when it is an alias, has a tag or lies too deep."""
        event: yaml.Event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _fail("aliases (*name) are not allowed", event.start_mark, self.origin)
        if getattr(event, "tag", None) is not None:
            raise _fail("tags (!name) are not allowed", event.start_mark, self.origin)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _fail("nested too deeply", event.start_mark, self.origin)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _fail(message: str, mark: Any, origin: str) -> CockpitError:
    if mark is None:
        return CockpitError(f"{origin}: {message}", fix=_FIX_FILE)
    return CockpitError(f"{origin}, line {mark.line + 1}: {message}", fix=_FIX)


def _scalar(node: yaml.ScalarNode, origin: str) -> Any:
    kind = node.tag.rsplit(":", 1)[-1]
    text = node.value
    if kind == "null":
        return None
    if kind == "bool":
        return text == "true"
    if kind == "int" and len(text) <= 19:
        return int(text)
    if kind == "float" and math.isfinite(float(text)):
        return float(text)
    if kind != "str":
        raise _fail(f"{text[:_SHOWN]!r} is not a number that can be used", node.start_mark, origin)
    return _text(node, origin)


def _text(node: yaml.ScalarNode, origin: str) -> str:
    """The words of a node. Escapes can bring NUL or half a character, which no command line or JSON could carry."""
    text: str = node.value
    if any(unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t" for character in text):
        raise _fail("control characters are not allowed", node.start_mark, origin)
    return text


def _build(node: yaml.Node, origin: str, lines: dict[tuple[str | int, ...], int], at: tuple[str | int, ...]) -> Any:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, origin)
    if isinstance(node, yaml.SequenceNode):
        return [_build(child, origin, lines, (*at, index)) for index, child in enumerate(node.value)]
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _fail("a key must be a word", key_node.start_mark, origin)
        key = _text(key_node, origin)
        if key in result:
            raise _fail(f"the key {key[:_SHOWN]!r} stands twice", key_node.start_mark, origin)
        result[key] = _build(value_node, origin, lines, (*at, key))
        lines[(*at, key)] = key_node.start_mark.line + 1
    return result


def _parse(text: str, origin: str) -> tuple[Any, dict[tuple[str | int, ...], int]]:
    if len(text) > MAX_BYTES:
        raise _fail(f"the file is larger than {MAX_BYTES // 1024} KiB", None, origin)
    loader = None
    try:
        loader = _Loader(text, origin)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        message = (error.problem or "not valid YAML").strip()
        raise _fail(f"not valid YAML, {message}", error.problem_mark or error.context_mark, origin) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise CockpitError(f"{origin}, line {line}: control characters are not allowed", fix=_FIX) from error
    except (ValueError, OverflowError) as error:
        # PyYAML trusts the figures of escapes such as \\UFFFFFFFF and of %YAML directives.
        line = loader.line + 1 if loader is not None else 1
        raise CockpitError(f"{origin}, line {line}: not valid YAML, a figure is out of range", fix=_FIX) from error
    lines: dict[tuple[str | int, ...], int] = {}
    if node is None:
        raise CockpitError(f"{origin}: the file is empty", fix=_FIX_EMPTY)
    return _build(node, origin, lines, ()), lines


def _location(message: str) -> tuple[tuple[str | int, ...], str, bool]:
    """Split msgspec's ``… - at `$.weights.bits``` into a path and the message; unknown keys point at themselves.

    True at the end: it lies at or below a key of the mapping at that path, but msgspec does not say at which.
    """
    text, _, path = message.partition(" - at `")
    nameless = "[...]" in path or path.startswith("key`")
    parts: list[str | int] = []
    for name, index in _PATH_PART.findall(path.partition("[...]")[0]):
        parts.append(name or int(index))
    unknown = re.search(r"unknown field `(.+?)`", text)
    if unknown:
        return (*parts, unknown.group(1)), "there is no such key", False
    return tuple(parts), text, nameless


def _only(value: Any, path: tuple[str | int, ...], key: str) -> Any:
    """``value`` with nothing but ``key`` left in the mapping at ``path``, which has mappings above it only."""
    if not path:
        return {key: value[key]}
    return {**value, path[0]: _only(value[path[0]], path[1:], key)}


def _wrong_key(value: Any, kind: Any, path: tuple[str | int, ...], message: str) -> tuple[str | int, ...]:
    """The path of the key that brings the same ``message`` when it stands alone."""
    mapping = value
    for part in path:
        mapping = mapping[part]
    for key in mapping:
        try:
            msgspec.convert(_only(value, path, key), kind, strict=True)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return (*path, key)
    return path


def read_text(file: Path) -> str:
    """The text of a file that is to be decoded, never more of it than a recipe may have.

    Raises FileNotFoundError when there is none, and CockpitError when it cannot be read, is too large or not UTF-8.
    """
    try:
        with file.open("rb") as handle:
            data = paths.read_up_to(handle, MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CockpitError(f"{file}: cannot be read", error.strerror or str(error), "Make it readable.") from error
    if len(data) > MAX_BYTES:
        raise _fail(f"the file is larger than {MAX_BYTES // 1024} KiB", None, str(file))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CockpitError(f"{file}, line {line}: not UTF-8 text", fix="Save it as UTF-8.") from error


def decode(text: str, kind: type[_T], origin: str) -> tuple[_T, dict[tuple[str | int, ...], int]]:
    """Read YAML ``text`` as a value of the msgspec struct ``kind``.

    ``origin`` names the file in errors. Returns the value and the line (from 1) of every path in the file, e.g.
    ``("weights", "bits") → 7``. Raises CockpitError with file and line for anything that is not exactly right.
    """
    value, lines = _parse(text, origin)
    if not isinstance(value, dict):
        raise _fail("the file must be a mapping (key: value)", None, origin)
    try:
        return msgspec.convert(value, kind, strict=True), lines
    except msgspec.ValidationError as error:
        path, message, nameless = _location(str(error))
        if nameless:
            path = _wrong_key(value, kind, path, str(error))
        spot = path
        while spot and spot not in lines:
            spot = spot[:-1]
        dotted = ".".join(str(part) for part in path)
        dotted = dotted if len(dotted) <= _SHOWN else dotted[:_SHOWN] + "…"
        named = f"{dotted}: " if dotted else ""
        message = message.replace("Object missing required field", "this key is missing:")
        hint = " (put it in quotes)" if message.startswith("Expected `str`, got") else ""
        text = f"{named}{message[:1].lower()}{message[1:]}{hint}"
        raise CockpitError(f"{origin}, line {lines.get(spot, 1)}: {text}", fix=_FIX) from error
