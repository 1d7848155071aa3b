"""Version texts as numbers."""

from __future__ import annotations

import pytest

from cockpit.planner.versions import release_of
from cockpit.rig.engines import _rank
from cockpit.rig.types import Engine
from cockpit.rig.version import version_numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.33.0rc1", (0, 33, 0)),
        ("v0.33", (0, 33)),
        ("0.33.0.dev5+g1", (0, 33, 0)),
        ("0.33.0", (0, 33, 0)),
        ("1.0", (1, 0)),
        ("0.10.0", (0, 10, 0)),
        ("dev", ()),
        ("unknown", ()),
        ("", ()),
        ("0.1.dev1+g0a1b2c3", ()),
        ("0.1.dev12345", ()),
        ("v0.1.dev7", ()),
        ("9" * 5000 + ".1", ()),
    ],
)
def test_a_version_is_its_figures_and_one_that_says_nothing_has_none(text: str, numbers: tuple[int, ...]) -> None:
    assert version_numbers(text) == numbers
    assert release_of(text) == (numbers[:2] or None)


def test_a_vllm_that_does_not_say_its_version_is_preferred_to_none_that_does() -> None:
    versions = ("unknown", "0.26.0", "0.33.1", "0.1.dev3", "0.33.1rc1", "0.9.2")
    engines = [
        Engine(id=one, path=one, python="", package="", version=one, platform="cuda", source="path")
        for one in versions
    ]
    assert [engine.id for engine in sorted(engines, key=_rank)][:4] == ["0.33.1", "0.33.1rc1", "0.26.0", "0.9.2"]
