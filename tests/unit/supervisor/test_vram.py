"""GPU memory after a stop: what came back is said, what did not is not this server's, and unknown stays unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from cockpit.supervisor import vram
from cockpit.supervisor.vram import GpuMemory
from cockpit.units import GIB


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vram, "_SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(vram, "_POLL_SECONDS", 0.01)


def memory(*readings: int | None) -> GpuMemory:
    """Reads these one after another, the last one for ever."""
    values: Iterator[int | None] = iter(readings)
    last: list[int | None] = []

    def read(gpus: Collection[int]) -> int | None:
        assert set(gpus) == {0, 1}
        last[:] = [next(values, last[0] if last else None)]
        return last[0]

    return GpuMemory((1, 0), read)


def test_memory_that_comes_back_late_is_waited_for_and_said() -> None:
    said: list[str] = []
    assert memory(22 * GIB, 22 * GIB, 22 * GIB, GIB).freed(said.append) == 21 * GIB
    assert said == ["21.0 GiB of GPU memory are free again on GPU 0, 1"]


def test_memory_that_stays_is_said_to_be_held_by_others() -> None:
    said: list[str] = []
    assert memory(22 * GIB, 22 * GIB).freed(said.append) == 0
    assert len(said) == 1 and "still holds 22.0 GiB, none of it by this server's processes" in said[0]


def test_a_card_that_others_fill_meanwhile_is_never_negative() -> None:
    assert memory(GIB, 9 * GIB).freed(lambda _: None) == 0


def test_what_is_not_known_stays_unknown() -> None:
    assert memory(None).freed(lambda _: None) is None
    assert memory(GIB, None).freed(lambda _: None) is None
    assert GpuMemory(()).freed(lambda _: None) is None
