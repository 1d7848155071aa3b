"""Earlier boots: kept, counted, and what they lead to expect."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.supervisor.boot_history import KEPT, Expectation, expected_of, remember, remembered, smaller_pool
from cockpit.supervisor.boot_pace import pace_of
from cockpit.supervisor.boot_state import STAGES, BootDraft, BootState
from cockpit.supervisor.diagnose.files import diagnose_record, end_of
from cockpit.supervisor.record import InstanceRecord


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def record(created_at: float, seconds: float = 100.0, **changes: object) -> InstanceRecord:
    fields: dict[str, object] = {
        "name": "vllm-dual",
        "slug": "vllm/dual",
        "model": "m",
        "served_model_name": "dual",
        "argv": ("vllm",),
        "env": {},
        "cwd": "/",
        "host": "127.0.0.1",
        "port": 8000,
        "url": "http://127.0.0.1:8000",
        "log": "/x.log",
        "created_at": created_at,
        "ready_at": created_at + seconds,
        "engine_version": "0.33.0",
        "gpu_model": "2x NVIDIA GeForce RTX 3090",
    }
    return InstanceRecord(**{**fields, **changes})  # type: ignore[arg-type]


def booted(weights: float = 60.0, compile_: float | None = 20.0, whole: float = 100.0) -> BootState:
    draft = BootDraft()
    draft.enter("config", 5.0)
    draft.enter("weights", 10.0)
    draft.leave("weights", 10.0 + weights)
    if compile_ is not None:
        draft.compiling()
        draft.leave("compile", 10.0 + weights + compile_)
    draft.enter("ready", whole - 1)
    draft.finish(whole)
    return draft.snapshot(None)


def running(*, weights_since: float) -> BootState:
    draft = BootDraft()
    draft.enter("config", 5.0)
    draft.enter("weights", weights_since)
    return draft.snapshot(None)


def test_the_median_of_the_last_five_boots_counts() -> None:
    for number, seconds in enumerate((900.0, 100.0, 110.0, 120.0, 130.0, 500.0)):
        remember(record(1000.0 * number, seconds), booted(weights=seconds / 2, whole=seconds))
    assert len(remembered("vllm/dual").boots) == KEPT
    expected = expected_of(record(99_000.0))
    assert expected is not None
    assert (expected.boots, expected.seconds, expected.stages["weights"]) == (5, 120.0, 60.0)


def test_other_engines_and_other_gpus_do_not_count() -> None:
    remember(record(1.0), booted())
    assert expected_of(record(2.0, engine_version="0.26.0")) is None
    assert expected_of(record(2.0, gpu_model="1x NVIDIA H200")) is None
    assert expected_of(record(2.0, engine_version="")) is None, "a record of an older cockpit does not say"
    assert expected_of(record(2.0)) is not None


def test_a_boot_is_kept_once_and_does_not_count_for_itself() -> None:
    one = record(1.0)
    remember(one, booted())
    remember(one, booted())
    assert len(remembered("vllm/dual").boots) == 1
    assert expected_of(one) is None


def test_a_boot_that_did_not_get_ready_is_not_kept() -> None:
    remember(record(1.0, ready_at=None), booted())
    remember(record(1.0), running(weights_since=9.0))
    assert remembered("vllm/dual").boots == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "\x00\xff", '{"format":1,"slug":1,"boots":[]}'])
def test_a_broken_file_counts_as_none_says_so_and_is_left_alone(text: str) -> None:
    remember(record(1.0), booted())
    (file,) = (paths.state_home() / "boots").glob("*.json")
    file.write_text(text, encoding="latin-1")
    known = remembered("vllm/dual")
    assert known.boots == () and known.problem is not None and str(file) in known.problem
    assert expected_of(record(2.0)) is None
    remember(record(3.0), booted())
    assert remembered("vllm/dual") == known and file.read_text(encoding="latin-1") == text
    file.unlink()
    remember(record(3.0), booted())
    assert remembered("vllm/dual").problem is None and len(remembered("vllm/dual").boots) == 1


def test_impossible_times_on_file_do_not_count() -> None:
    remember(record(1.0), booted())
    (file,) = (paths.state_home() / "boots").glob("*.json")
    file.write_text(file.read_text().replace('"seconds":100.0', '"seconds":-1e308'))
    assert expected_of(record(2.0)) is None


def test_a_home_that_cannot_be_written_to_is_said(home: Path) -> None:
    paths.state_home().mkdir(parents=True)
    (paths.state_home() / "boots").write_text("a file where the folder should be")
    with pytest.raises(CockpitError, match="cannot write"):
        remember(record(1.0), booted())


def test_the_pace_follows_the_stage_that_runs() -> None:
    usual = Expectation(boots=3, seconds=100.0, stages={"environment": 5, "config": 5, "weights": 60, "compile": 30})
    pace = pace_of(running(weights_since=10.0), 30.0, usual)
    assert pace is not None and (pace.remaining_seconds, pace.fraction) == (70.0, 0.3)
    late = pace_of(running(weights_since=10.0), 200.0, usual)
    assert late is not None and late.remaining_seconds == 30.0, "a slow stage moves the end"
    done = pace_of(booted(), 100.0, usual)
    assert done is not None and (done.remaining_seconds, done.fraction) == (0.0, 1.0)
    assert pace_of(booted(), 100.0, None) is None


def with_pool(capacity: int) -> BootState:
    boot = booted()
    return msgspec.structs.replace(boot, facts=msgspec.structs.replace(boot.facts, capacity_tokens=capacity))


def test_a_pool_that_is_smaller_than_before_is_said_where_the_settings_are_the_same() -> None:
    values = {"max_model_len": 4096, "gpus": (0, 1), "port": 8000}
    for number, capacity in enumerate((400_000, 401_000, 399_000)):
        remember(record(float(number), values=values), with_pool(capacity))
    again = record(9.0, values={**values, "port": 8001})
    said = smaller_pool(again, with_pool(240_000))
    assert said is not None and "240,000" in said and "400,000" in said
    assert smaller_pool(again, with_pool(390_000)) is None
    assert smaller_pool(record(9.0, values={**values, "max_model_len": 8192}), with_pool(240_000)) is None
    assert smaller_pool(record(9.0, values=values, gpu_model="1x T4"), with_pool(240_000)) is None


STAGE_SECONDS = st.dictionaries(st.sampled_from(STAGES), st.floats(0, 1e5))


@given(STAGE_SECONDS, st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_pace_is_never_negative_and_never_more_than_all(usual: dict[str, float], at: float, seconds: float) -> None:
    expected = msgspec.convert({"boots": 1, "seconds": sum(usual.values()), "stages": usual}, Expectation)
    pace = pace_of(running(weights_since=at), seconds, expected)
    assert pace is not None and pace.remaining_seconds >= 0 and 0 <= pace.fraction <= 1


DEATH = 'Traceback (most recent call last):\n  File "/x/vllm/a.py", line 1, in f\n    g()\nValueError: never seen\n'


@pytest.mark.parametrize(
    ("version", "gpu_model", "said"),
    [
        ("0.33.1", "2x NVIDIA GeForce RTX 3090", "booted here with vLLM 0.33.0 and never with 0.33.1"),
        ("0.33.0", "2x NVIDIA GeForce RTX 3090", None),
        ("0.33.1", "1x NVIDIA H200", None),
        ("unknown", "2x NVIDIA GeForce RTX 3090", None),
    ],
)
def test_an_unknown_death_after_a_change_of_versions_says_so(
    home: Path, version: str, gpu_model: str, said: str | None
) -> None:
    remember(record(1.0), booted())
    log = home / "x.log"
    log.write_text(DEATH)
    dead = record(500.0, engine_version=version, gpu_model=gpu_model, ready_at=None, ended_at=600.0, log=str(log))
    diagnosis = diagnose_record(dead, end_of(dead, dead=True))
    assert diagnosis.first_exception == "ValueError: never seen"
    assert (diagnosis.symptom == "nightly-regression") == (said is not None)
    assert (said or "") in (diagnosis.explanation or "")


def test_a_known_death_is_not_blamed_on_a_change_of_versions(home: Path) -> None:
    remember(record(1.0), booted())
    log = home / "x.log"
    log.write_text("OSError: [Errno 98] Address already in use\n")
    dead = record(500.0, engine_version="0.34.0", ready_at=None, ended_at=600.0, log=str(log))
    assert diagnose_record(dead, end_of(dead, dead=True)).symptom == "port-in-use"
