"""Rigs described in files: the packaged ones, and everything that a file may have wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.errors import CockpitError
from cockpit.rig.described import load_rig, packaged_rigs
from cockpit.units import GIB

GOOD = """gpus:
  - {name: Card, count: 2, memory_gib: 24, used_gib: 0.5, capability: "8.6"}
  - name: Other
    memory_gib: 12
    capability: "12.0"
driver: "580.95.05"
host_memory_gib: 64
cpu_count: 16
"""


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("name", "count", "card", "mib", "usable", "capability"),
    [
        ("1x3090", 1, "RTX 3090", 24576, 23.57, (8, 6)),
        ("2x3090", 2, "RTX 3090", 24576, 23.57, (8, 6)),
        ("4x3090", 4, "RTX 3090", 24576, 23.57, (8, 6)),
        ("2x5090", 2, "RTX 5090", 32607, 31.36, (12, 0)),
        ("1xh200", 1, "H200", 143771, 139.8, (9, 0)),
    ],
)
def test_each_packaged_rig_is_what_its_name_says(
    name: str, count: int, card: str, mib: int, usable: float, capability: tuple[int, int]
) -> None:
    rig = load_rig(name)
    assert (rig.described, len(rig.gpus), rig.gpu_problem) == (name, count, None)
    assert [gpu.index for gpu in rig.gpus] == list(range(count))
    for gpu in rig.gpus:
        assert card in gpu.name
        assert gpu.total_bytes == mib * 1024**2
        assert gpu.usable_bytes == pytest.approx(usable * GIB)
        assert (gpu.used_bytes, gpu.capability) == (0, capability)


def test_nothing_else_is_packaged() -> None:
    assert packaged_rigs() == ["1x3090", "1xh200", "2x3090", "2x5090", "4x3090"]


def test_a_file_describes_a_rig_of_mixed_cards(tmp_path: Path) -> None:
    rig = load_rig(write(tmp_path, GOOD))
    assert [(gpu.name, gpu.capability) for gpu in rig.gpus] == [("Card", (8, 6))] * 2 + [("Other", (12, 0))]
    assert [gpu.used_bytes for gpu in rig.gpus] == [GIB // 2, GIB // 2, 0]
    assert rig.gpus[2].usable_bytes is None
    assert len({gpu.uuid for gpu in rig.gpus}) == 3
    assert (rig.driver, rig.cpu_count, rig.wsl, rig.described) == ("580.95.05", 16, False, "mine.yaml")
    assert rig.memory_total_bytes == 64 * GIB


def test_a_rig_may_have_no_gpu_and_says_so(tmp_path: Path) -> None:
    rig = load_rig(write(tmp_path, "host_memory_gib: 8\ncpu_count: 4\n"))
    assert rig.gpus == ()
    assert rig.gpu_problem == "the rig mine.yaml has no GPU."


@pytest.mark.parametrize("text", ["3x3090", "/no/such/file.yaml", "", "a\0b", "x" * 5000, "~", "~nobody/x", "/tmp"])
def test_an_unknown_name_lists_the_known_ones(text: str) -> None:
    with pytest.raises(CockpitError) as refused:
        load_rig(text)
    assert "1x3090, 1xh200, 2x3090, 2x5090, 4x3090" in refused.value.detail
    assert "file" in refused.value.fix
    assert len(refused.value.sentence()) < 400


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(CockpitError, match="Did you mean 2x3090"):
        load_rig("2x309")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('capability: "8.6"', "capability: 8.6", "line 2: gpus.0.capability: expected `str`"),
        ('capability: "8.6"', 'capability: "sm86"', "line 2: gpus.0.capability"),
        ("count: 2", "count: 0", "line 2: gpus.0.count"),
        ("count: 2", "count: 64", "line 3: more than 64 GPUs"),
        ("count: 2", "cuont: 2", "line 2: gpus.0.cuont: there is no such key"),
        ("memory_gib: 24", "memory_gib: big", "line 2: gpus.0.memory_gib"),
        ("memory_gib: 24", "memory_gib: -1", "line 2: gpus.0.memory_gib"),
        ("used_gib: 0.5", "used_gib: 25", "line 2: gpus.0.used_gib: more than memory_gib"),
        ("used_gib: 0.5", "usable_memory_gib: 25", "line 2: gpus.0.usable_memory_gib: more than memory_gib"),
        ('"580.95.05"', "latest", "line 6: driver"),
        ("cpu_count: 16\n", "", "this key is missing: `cpu_count`"),
        ("name: Card", 'name: "a\\nb"', "line 2: gpus.0.name"),
        ("gpus:", "gpus: [", "not valid YAML"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(CockpitError) as refused:
        load_rig(write(tmp_path, GOOD.replace(old, new, 1)))
    assert says in refused.value.sentence()
    assert "mine.yaml" in refused.value.title


VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(allow_nan=False) | st.text(max_size=8)
)
KEYS = st.sampled_from(["name", "count", "memory_gib", "usable_memory_gib", "used_gib", "capability", "other"])
CARD = st.dictionaries(KEYS, VALUES, max_size=7) | st.fixed_dictionaries(
    {"name": st.just("C"), "memory_gib": VALUES, "capability": st.sampled_from(["8.6", "9.0", "x", 8.6])}
)
RIGS = st.fixed_dictionaries(
    {"host_memory_gib": st.just(8) | VALUES, "cpu_count": st.just(2) | VALUES},
    optional={"gpus": st.lists(CARD, max_size=3) | VALUES, "driver": VALUES, "wsl": VALUES, "more": VALUES},
)


@settings(max_examples=120, deadline=None)
@given(RIGS)
def test_any_file_is_a_rig_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]) -> None:
    file = tmp_path_factory.mktemp("rig") / "r.yaml"
    file.write_text(yaml.safe_dump(value, allow_unicode=True), encoding="utf-8")
    try:
        rig = load_rig(str(file))
    except CockpitError as error:
        assert "r.yaml" in error.title
        return
    assert rig.described == "r.yaml" and rig.cpu_count >= 1 and rig.memory_total_bytes > 0
    for gpu in rig.gpus:
        assert gpu.total_bytes is not None and gpu.used_bytes is not None
        assert 0 <= gpu.used_bytes <= gpu.total_bytes
        assert gpu.usable_bytes is None or gpu.usable_bytes <= gpu.total_bytes


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes_are_a_rig_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("rig") / "r.yaml"
    file.write_bytes(data)
    with pytest.raises(CockpitError):
        load_rig(str(file))
