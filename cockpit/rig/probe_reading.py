"""The source files of a package as syntax trees, and what their tables hold; nothing of it is imported or run.

A part of probe_script, which runs inside an engine's environment (Python 3.9 or later, standard library only).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


class Package:
    """The source files of one package, each read and parsed at most once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: dict[str, ast.Module | None] = {}
        """Every file that was asked for, by its place in the package; None when it cannot be read."""

    def tree(self, place: str) -> ast.Module | None:
        """The syntax tree of one file, or None."""
        if place not in self.read:
            try:
                self.read[place] = ast.parse((self.folder / place).read_text(encoding="utf-8"))
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                self.read[place] = None
        return self.read[place]

    def assignments(self, place: str) -> dict[str, ast.expr]:
        """Value nodes of the assignments anywhere in one file, by name, the outermost first."""
        tree = self.tree(place)
        found: dict[str, ast.expr] = {}
        for target, value in pairs(ast.walk(tree) if tree else ()):
            if isinstance(target, ast.Name):
                found.setdefault(target.id, value)
        return found

    def files_with(self, folder: str, texts: Iterable[str]) -> Iterator[str]:
        """Places of the modules in ``folder`` and one level below it that hold one of ``texts``."""
        wanted = tuple(texts)
        for file in sorted([*(self.folder / folder).glob("*.py"), *(self.folder / folder).glob("*/*.py")]):
            try:
                source = file.read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue
            if any(text in source for text in wanted):
                yield file.relative_to(self.folder).as_posix()


def pairs(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target with its value, for plain, chained and annotated assignments among ``nodes``."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value


def integer_keys(value: ast.expr | None) -> list[int] | None:
    """The keys of a dict display whose keys are all integers, sorted, or None."""
    if not isinstance(value, ast.Dict):
        return None
    keys = [key.value for key in value.keys if isinstance(key, ast.Constant) and type(key.value) is int]
    return sorted(keys) if keys and len(keys) == len(value.keys) else None


def words(value: ast.expr | None) -> list[str] | None:
    """The strings of ``Literal["a", "b"]`` or of a list or tuple display, in their order, or None."""
    inner = value.slice if isinstance(value, ast.Subscript) else value
    parts = inner.elts if isinstance(inner, (ast.Tuple, ast.List)) else [inner]
    found = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return found if found and len(found) == len(parts) else None


def string_keys(value: ast.expr | None, named: Mapping[str, ast.expr], depth: int = 0) -> list[str] | None:
    """The keys of a dict display of strings, with those of the dicts that it spreads (``**NAME``), or None."""
    if not isinstance(value, ast.Dict) or depth > 3:
        return None
    found: list[str] = []
    for key, inner in zip(value.keys, value.values):  # noqa: B905 - strict= needs 3.10
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.append(key.value)
            continue
        source = _spread(inner) if key is None else None
        spread = string_keys(named.get(source), named, depth + 1) if source else None
        if spread is None:
            return None
        found += spread
    return found


def _spread(value: ast.expr) -> str | None:
    """The dict whose keys ``**value`` takes: NAME itself, or NAME.items() through a comprehension's filter."""
    if isinstance(value, ast.DictComp) and isinstance(value.key, ast.Name):
        call = value.generators[0].iter
        value = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else call
    return value.id if isinstance(value, ast.Name) else None


def strings(values: Iterable[ast.AST]) -> set[str]:
    """Every string that stands in any of the expressions."""
    nodes = (node for value in values for node in ast.walk(value) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}
