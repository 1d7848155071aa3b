"""YAML without surprises: safe, no duplicate keys, no aliases, ``on`` is a word, errors carry their line."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
import yaml

from cockpit.errors import CockpitError

_FIX = "Correct that line and run the command again."
MAX_BYTES = 256 * 1024
_T = TypeVar("_T")
_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]|\[\.\.\.\]")


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


class _Loader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer, _Resolver):
    """Composes nodes only: values are built below, so that no tag can construct anything."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)
        yaml.composer.Composer.__init__(self)
        _Resolver.__init__(self)


def _fail(message: str, mark: Any, origin: str) -> CockpitError:
    where = origin if mark is None else f"{origin}, line {mark.line + 1}"
    return CockpitError(f"{where}: {message}", fix=_FIX)


def _scalar(node: yaml.ScalarNode, origin: str) -> Any:
    kind = node.tag.rsplit(":", 1)[-1]
    text = node.value
    if kind == "str":
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return text == "true"
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except ValueError as error:
        raise _fail(f"{text[:40]!r} is not a number that can be used", node.start_mark, origin) from error
    raise _fail(f"the tag {node.tag[:40]!r} is not allowed", node.start_mark, origin)


def _build(node: yaml.Node, origin: str, lines: dict[tuple[str | int, ...], int], at: tuple[str | int, ...]) -> Any:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, origin)
    if isinstance(node, yaml.SequenceNode):
        return [_build(child, origin, lines, (*at, index)) for index, child in enumerate(node.value)]
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            raise _fail("a key must be a word", key_node.start_mark, origin)
        if key in result:
            raise _fail(f"the key {key!r} stands twice", key_node.start_mark, origin)
        result[key] = _build(value_node, origin, lines, (*at, key))
        lines[(*at, key)] = key_node.start_mark.line + 1
    return result


def _parse(text: str, origin: str) -> tuple[Any, dict[tuple[str | int, ...], int]]:
    if len(text) > MAX_BYTES:
        raise _fail(f"the file is larger than {MAX_BYTES // 1024} KiB", None, origin)
    try:
        loader = _Loader(text)
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise _fail("aliases (*name) are not allowed", event.start_mark, origin)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        message = (error.problem or "not valid YAML").strip()
        raise _fail(f"not valid YAML, {message}", error.problem_mark or error.context_mark, origin) from error
    except yaml.YAMLError as error:
        raise _fail(f"not valid YAML, {str(error).splitlines()[0]}", None, origin) from error
    except RecursionError as error:
        raise _fail("nested too deeply", None, origin) from error
    lines: dict[tuple[str | int, ...], int] = {}
    if node is None:
        raise _fail("the file is empty", None, origin)
    try:
        return _build(node, origin, lines, ()), lines
    except RecursionError as error:
        raise _fail("nested too deeply", None, origin) from error


def _location(message: str) -> tuple[tuple[str | int, ...], str]:
    """Split msgspec's ``… - at `$.weights.bits``` into a path and the message; unknown keys point at themselves."""
    text, _, path = message.partition(" - at `")
    parts: list[str | int] = []
    for name, index in _PATH_PART.findall(path):
        if name:
            parts.append(name)
        elif index:
            parts.append(int(index))
    unknown = re.search(r"unknown field `(.+?)`", text)
    if unknown:
        return (*parts, unknown.group(1)), "there is no such key"
    return tuple(parts), text


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
        path, message = _location(str(error))
        spot = path
        while spot and spot not in lines:
            spot = spot[:-1]
        dotted = ".".join(str(part) for part in path)
        named = f"{dotted}: " if dotted else ""
        message = message.replace("Object missing required field", "this key is missing:")
        hint = " (put it in quotes)" if message.startswith("Expected `str`") else ""
        text = f"{named}{message[:1].lower()}{message[1:]}{hint}"
        raise CockpitError(f"{origin}, line {lines.get(spot, 1)}: {text}", fix=_FIX) from error
