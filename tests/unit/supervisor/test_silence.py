"""What is said of a silent boot, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.supervisor.boot_state import STAGES, BootFacts, BootStage, BootState, StageId
from cockpit.supervisor.silence import Evidence, silence_of

WORKS = Evidence(cores=1.0, read_bytes_per_second=0.0, gpus=(0.0,))
RESTS = Evidence(cores=0.0, read_bytes_per_second=0.0, gpus=(0.0, 0.0))
SPINS = Evidence(cores=2.0, read_bytes_per_second=0.0, gpus=(1.0, 1.0))


def boot(stage: StageId, world_size: int | None = None, gib: float | None = None) -> BootState:
    facts = BootFacts(world_size=world_size, checkpoint_gib=gib)
    stages = (BootStage(id=stage, started=0.0),)
    return BootState(stages=stages, current=stage, facts=facts, ready=False, first_exception=None)


def reading(bytes_per_second: float) -> Evidence:
    return Evidence(cores=0.1, read_bytes_per_second=bytes_per_second, gpus=(0.0,))


@pytest.mark.parametrize(
    ("state", "seconds", "seen", "said", "alarm"),
    [
        (boot("config", world_size=2), 95, SPINS, "nccl-p2p", True),
        (boot("config", world_size=2), 60, SPINS, "engine", False),
        (boot("config", world_size=1), 400, Evidence(cores=1.0, gpus=(1.0,)), "engine", False),
        (boot("config", world_size=2), 130, RESTS, "ranks-wait", True),
        (boot("weights", gib=17.7), 20, reading(60e6), "weights-slow", False),
        (boot("weights", gib=17.7), 20, reading(3e9), "weights-read", False),
        (boot("weights"), 30, WORKS, "weights-packed", False),
        (boot("weights"), 70, RESTS, "weights-stuck", True),
        (boot("compile"), 300, WORKS, "compile", False),
        (boot("compile"), 300, Evidence(cores=4.0, compilers=("ptxas",)), "kernels", False),
        (boot("kv_pool"), 30, WORKS, "profile", False),
        (boot("ready"), 100, WORKS, "warm-up", False),
        (boot("ready", world_size=2), 320, SPINS, "gpus-stuck", True),
        (boot("environment"), 20, WORKS, "imports", False),
        (boot("environment"), 130, Evidence(cores=0.0, read_bytes_per_second=0.0), "nothing", True),
        (boot("compile"), 6, Evidence(stopped=True), "stopped", True),
        (boot("weights"), 12, Evidence(download="a/b", download_bytes_per_second=9e6), "download", False),
        (boot("weights"), 70, Evidence(download="a/b", download_bytes_per_second=0.0), "download-stalled", True),
    ],
)
def test_what_is_said(state: BootState, seconds: float, seen: Evidence, said: str, alarm: bool) -> None:
    silence = silence_of(state, seconds, seen)
    assert silence is not None
    assert (silence.id, silence.alarm, bool(silence.fix)) == (said, alarm, alarm or said == "weights-slow")


def test_a_p2p_hang_names_the_variable_or_the_next_one() -> None:
    hang = silence_of(boot("config", world_size=2), 95, SPINS)
    assert hang is not None and "NCCL_P2P_DISABLE=1" in hang.fix and "P2P hang" in hang.sentence
    again = silence_of(boot("config", world_size=2), 95, Evidence(cores=2.0, gpus=(1.0, 1.0), p2p_disabled=True))
    assert again is not None and "NCCL_CUMEM_ENABLE=0" in again.fix


def test_a_slow_disk_is_said_with_its_speed_and_the_time_it_takes() -> None:
    slow = silence_of(boot("weights", gib=17.7), 20, reading(100e6))
    assert slow is not None and "100 MB/s" in slow.sentence and "17.7 GiB take 3:10" in slow.sentence


def test_a_stage_that_was_silent_before_is_given_its_time() -> None:
    usual: dict[StageId, float] = {"config": 200.0}
    assert silence_of(boot("config", world_size=2), 250, SPINS, usual) is not None
    assert silence_of(boot("config", world_size=2), 250, SPINS, usual).alarm is False  # type: ignore[union-attr]
    late = silence_of(boot("config", world_size=2), 301, SPINS, usual)
    assert late is not None and late.alarm


@given(st.sampled_from(STAGES), st.floats(0, 1e6), st.integers(1, 8))
def test_without_evidence_nothing_is_said(stage: StageId, seconds: float, ranks: int) -> None:
    state = boot(stage, world_size=ranks)
    assert silence_of(state, seconds, None) is None
    assert silence_of(state, seconds, Evidence(gpus=(None,) * ranks)) is None


@given(st.sampled_from(STAGES), st.floats(0, 250), st.floats(0.2, 64), st.lists(st.floats(0, 0.89), max_size=4))
def test_what_works_and_does_not_spin_never_alarms(
    stage: StageId, seconds: float, cores: float, gpus: list[float]
) -> None:
    seen = Evidence(cores=cores, read_bytes_per_second=0.0, gpus=tuple(gpu + 0.01 for gpu in gpus))
    silence = silence_of(boot(stage, world_size=2), seconds, seen)
    assert silence is None or not silence.alarm
