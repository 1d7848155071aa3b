"""The overlays' anchors against vLLM's own sources, read out of the wheels on the package index."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

import overlay_anchors  # noqa: E402
from vllm_sources import UnreachableError, sources  # noqa: E402

ANCHORS = [json.loads(file.read_text()) for file in sorted(overlay_anchors.OVERLAYS.glob("*/anchors.json"))]
CASES = [(anchors, version) for anchors in ANCHORS for version in anchors["versions"]]


@pytest.mark.network
@pytest.mark.parametrize(("anchors", "version"), CASES, ids=[f"{a['id']}-{v}" for a, v in CASES])
def test_every_function_is_the_one_that_was_tried(anchors: dict[str, Any], version: str) -> None:
    try:
        found = overlay_anchors.functions(version, anchors)
    except UnreachableError as error:
        pytest.skip(f"the package index cannot be asked: {error}")
    assert found == anchors["versions"][version]
    verdict = overlay_anchors.checker().judge(anchors, version, overlay_anchors.read(version, anchors))
    assert verdict.state == "available"


@pytest.mark.network
@pytest.mark.parametrize("anchors", ANCHORS, ids=[anchors["id"] for anchors in ANCHORS])
def test_one_changed_word_in_any_anchor_is_noticed(anchors: dict[str, Any]) -> None:
    version = list(anchors["versions"])[-1]
    places = {name.partition("::")[0] for name in anchors["functions"]}
    try:
        stock = sources(version, places | set(anchors["cure"]["files"]))
    except UnreachableError as error:
        pytest.skip(f"the package index cannot be asked: {error}")
    checker = overlay_anchors.checker()
    for name in anchors["functions"]:
        place, _, function = name.partition("::")
        changed = dict(stock)
        changed[place] = renamed(checker, stock[place], function)
        verdict = checker.judge(anchors, version, checker.Sources(changed.__getitem__))
        assert verdict.state == "unsupported" and function in verdict.reason


def renamed(checker: Any, source: str, function: str) -> str:
    """The source with a statement more in one function."""
    import ast

    tree = ast.parse(source)
    checker.find(tree, function).body.append(ast.parse("moved = 1").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))
