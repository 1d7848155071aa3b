"""What every overlay needs: is this vLLM one whose code it may patch, and how to patch a module once it is there.

An overlay's ``anchors.json`` holds, for each vLLM that it was tried on, the signature and the source hash of every
function that it patches or leans on. The check reads source files and imports neither vllm nor torch, so that the
cockpit asks before a boot the very question that the server asks in it. Standard library only, Python 3.9 or later.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

FORCE = "COCKPIT_OVERLAY_FORCE"
"""Set to 1: patch a vLLM that the overlay was never tried on, as long as every signature is a known one."""
PREFIX = "cockpit overlay"
"""How every line of an overlay begins in the server's log."""


class Verdict(NamedTuple):
    """Whether an overlay may patch one vLLM."""

    state: str
    """``available``, ``needless`` (this vLLM does by itself what the overlay adds) or ``unsupported``."""
    reason: str


class Function(NamedTuple):
    """One function as it is written: what must not have moved."""

    signature: str
    source: str
    """First 16 hex digits of the SHA-256 of its normalized syntax tree."""


def normalized(node: ast.AST) -> str:
    """The syntax tree as text that is the same for every Python that can parse it; docstrings are left out."""
    parts = []
    for name, value in ast.iter_fields(node):
        if name in ("ctx", "kind", "type_comment", "type_params", "type_ignores"):
            continue
        if name == "body" and isinstance(value, list) and value and _is_text(value[0]):
            value = value[1:]  # noqa: PLW2901 - the docstring
        text = _text(value)
        if text not in ("[]", "None"):
            parts.append(f"{name}={text}")
    return f"{type(node).__name__}({', '.join(parts)})"


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _text(value: Any) -> str:
    if isinstance(value, ast.AST):
        return normalized(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def find(tree: ast.AST, name: str) -> ast.AST | None:
    """The function or class called ``Class.method`` or ``function`` in a module's tree, or None."""
    here: Any = tree
    for part in name.split("."):
        here = next((node for node in getattr(here, "body", ()) if getattr(node, "name", None) == part), None)
        if here is None:
            return None
    return here if isinstance(here, (ast.FunctionDef, ast.ClassDef)) else None


def describe(node: ast.AST) -> Function:
    """Signature and source hash of a function."""
    assert isinstance(node, ast.FunctionDef)
    digest = hashlib.sha256(normalized(node).encode()).hexdigest()
    return Function(signature=f"({ast.unparse(node.args)})", source=digest[:16])


class Sources:
    """The source files of one vllm package, each parsed at most once."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read
        self._trees: dict[str, ast.Module | None] = {}

    @classmethod
    def of(cls, package: Path) -> Sources:
        """Those below a folder."""
        return cls(lambda place: (package / place).read_text(encoding="utf-8"))

    def tree(self, place: str) -> ast.Module | None:
        """The syntax tree of one file, or None when it is not there or no Python."""
        if place not in self._trees:
            try:
                self._trees[place] = ast.parse(self._read(place))
            except (OSError, KeyError, SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[place] = None
        return self._trees[place]

    def function(self, anchor: str) -> Function | None:
        """The function at ``path/file.py::Class.method``, or None."""
        place, _, name = anchor.partition("::")
        tree = self.tree(place)
        node = find(tree, name) if tree is not None else None
        return describe(node) if isinstance(node, ast.FunctionDef) else None


def cured(sources: Sources, cure: dict[str, Any]) -> bool:
    """Whether this vLLM already does what the overlay adds, by the marks in ``cure``.

    ``mentions``: one of these names is used in one of ``files``. ``call`` with ``keyword``: every call of that name
    in ``files`` passes that keyword.
    """
    trees = [tree for place in cure["files"] if (tree := sources.tree(place)) is not None]
    if "mentions" in cure:
        return any(word in cure["mentions"] for tree in trees for word in _words(tree))
    calls = [call for tree in trees for call in _calls(tree, cure["call"])]
    return bool(calls) and all(any(word.arg == cure["keyword"] for word in call.keywords) for call in calls)


def _words(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        for field in ("attr", "arg", "id"):
            word = getattr(inner, field, None)
            if isinstance(word, str):
                yield word


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def release(version: str) -> str:
    """``0.32.0+cpu`` → ``0.32.0``."""
    return version.split("+", 1)[0]


def judge(anchors: dict[str, Any], version: str, sources: Sources) -> Verdict:
    """Whether the overlay may patch the vLLM of that version and those sources; every anchor is looked at."""
    if cured(sources, anchors["cure"]):
        doubt = anchors.get("doubt")
        if doubt is not None and release(version) not in doubt["versions"]:
            return Verdict("unsupported", f"vLLM {release(version)} {doubt['doubt']}")
        return Verdict("needless", f"vLLM {release(version)} does it by itself")
    tried = anchors["versions"]
    known = tried.get(release(version))
    if known is None:
        return Verdict("unsupported", f"it was never tried on vLLM {release(version)}, only on {', '.join(tried)}")
    moved = [name for name, wanted in known.items() if sources.function(name) != Function(*wanted)]
    if moved:
        return Verdict(
            "unsupported", f"{_short(moved)} of this vLLM {release(version)} is not the code it was made for"
        )
    return Verdict("available", f"vLLM {release(version)}")


def patchable(anchors: dict[str, Any], sources: Sources) -> str | None:
    """Why not even force may patch: the anchors that are gone or take other arguments; None when it may."""
    known: dict[str, set[str]] = {}
    for functions in anchors["versions"].values():
        for name, (signature, _) in functions.items():
            known.setdefault(name, set()).add(signature)
    found = {name: sources.function(name) for name in known}
    moved = [name for name, function in found.items() if function is None or function.signature not in known[name]]
    return f"{_short(moved)} is gone or takes other arguments" if moved else None


def _short(names: Sequence[str]) -> str:
    first = names[0].partition("::")[2]
    return first if len(names) == 1 else f"{first} (and {len(names) - 1} more)"


def load(folder: Path) -> dict[str, Any]:
    """An overlay's anchors.json, and its doubt.json where half of a cure lies in compiled code that no source shows:
    why such a vLLM is not taken for cured, and the ``versions`` that were tried and are.
    """
    anchors: dict[str, Any] = json.loads((folder / "anchors.json").read_text(encoding="utf-8"))
    doubt = folder / "doubt.json"
    return {**anchors, "doubt": json.loads(doubt.read_text(encoding="utf-8"))} if doubt.exists() else anchors


def states(overlays: Path, package: Path, version: str) -> dict[str, dict[str, str]]:
    """For every overlay below ``overlays``: its state and reason for the vllm package at ``package``."""
    sources = Sources.of(package)
    found = {}
    for file in sorted(overlays.glob("*/anchors.json")):
        anchors = load(file.parent)
        verdict = judge(anchors, version, sources)
        found[anchors["id"]] = {"state": verdict.state, "reason": verdict.reason}
    return found


def admitted(folder: Path) -> bool:
    """In the server: whether to patch. Ends the process with one clear line when it must not be patched."""
    import vllm

    anchors = load(folder)
    sources = Sources.of(Path(vllm.__file__).parent)
    verdict = judge(anchors, vllm.__version__, sources)
    if verdict.state == "available":
        return True
    if verdict.state == "needless":
        say(anchors["id"], f"needless: {verdict.reason}")
        return False
    if os.environ.get(FORCE) != "1":
        refuse(anchors["id"], verdict.reason)
    problem = patchable(anchors, sources)
    if problem is not None:
        refuse(anchors["id"], f"{verdict.reason}, and {problem}")
    say(anchors["id"], f"forced: {verdict.reason}")
    return True


def say(overlay: str, text: str) -> None:
    """One line in the server's log."""
    from vllm.logger import init_logger

    init_logger("vllm.cockpit_overlay").info("%s %s: %s", PREFIX, overlay, text)


def refuse(overlay: str, reason: str) -> NoReturn:
    """End this process with one line and no traceback: a server asked for the overlay must not run without it."""
    sys.stdout.flush()
    sys.stderr.write(f"{PREFIX} {overlay}: refused: {reason}\n")
    sys.stderr.flush()
    os._exit(1)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module right after the module was first imported."""

    def __init__(self, name: str, act: Callable[[Any], None]) -> None:
        self._name, self._act = name, act
        self._asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's own spec, with a loader that acts after it; who only looks for the module changes nothing."""
        if name != self._name or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._acted)
        return spec

    def _acted(self, module: Any) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._act(module)


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, act: Callable[[Any], None]) -> None:
        self._inner, self._act = inner, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._inner.exec_module(module)
        module.__loader__ = module.__spec__.loader = self._inner
        self._act(module)


def when_imported(name: str, act: Callable[[Any], None]) -> None:
    """Call ``act(module)`` now if the module is there, else right after its import; it imports nothing itself."""
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, act))


def key_compile_cache(factor: str) -> None:
    """Make vLLM's compile cache tell patched from stock graphs: it hashes configs and source files, not patches."""
    from vllm import envs

    stock = envs.compile_factors

    def factors() -> dict[str, object]:
        return {**stock(), "COCKPIT_OVERLAY": factor}

    envs.compile_factors = factors
