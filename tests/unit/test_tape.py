"""Tapes: written, read back, replayed; a bad one is a sentence."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cockpit import tape
from cockpit.cli.main import main
from cockpit.errors import CockpitError
from cockpit.supervisor.boot_state import BootFacts, BootStage, BootState
from cockpit.supervisor.record import InstanceRecord
from cockpit.tape import Replay, TapeWriter, read_tape
from cockpit.telemetry.frame import Frame, GpuReading, SpeculativeRates, Throughput
from cockpit.watch import Observation

RECORD = InstanceRecord(
    name="one",
    slug="a/one",
    model="m",
    served_model_name="m",
    argv=("vllm", "serve"),
    env={"A": None},
    cwd="/",
    host="127.0.0.1",
    port=8000,
    url="http://127.0.0.1:8000",
    log=str(Path.home() / "log"),
    created_at=1.0,
    ready_at=2.0,
)


def seen(at, *lines, **frame):
    boot = BootState(
        stages=(BootStage(id="ready", started=1.0),),
        current=None,
        facts=BootFacts(),
        ready=True,
        first_exception=None,
    )
    return Observation(
        record=RECORD,
        state="ready",
        boot=boot,
        boot_seconds=1.0,
        frame=Frame(at=at, state="ready", **frame),
        lines=lines,
    )


def write(path, observations):
    writer = TapeWriter(path)
    for one in observations:
        assert writer.add(one)
    writer.close()
    return path


@pytest.fixture
def good(tmp_path):
    return write(tmp_path / "good.tape", [seen(100.0 + second, f"line {second}") for second in range(10)])


def test_what_is_written_is_read(tmp_path):
    busy = seen(
        5.0,
        "a line [with] \x1b brackets",
        throughput=Throughput(prefill_tokens_per_second=2500.0),
        speculative=SpeculativeRates(acceptance_per_position=(0.8, 0.5)),
        gpus=(GpuReading(index=0, uuid="u", name="n", throttle=("heat",)),),
        notes=("a note",),
    )
    read = read_tape(write(tmp_path / "a.tape", [busy, seen(7.0)]))
    assert read.seconds == 2.0
    first = read.observations[0]
    assert (first.frame, first.lines, first.boot) == (busy.frame, busy.lines, busy.boot)


def test_a_tape_does_not_hold_the_users_home(tmp_path):
    read = read_tape(write(tmp_path / "a.tape", [seen(5.0)]))
    assert read.observations[0].record.log == "~/log"


def test_a_tape_is_never_written_over(good):
    with pytest.raises(CockpitError, match="exists"):
        TapeWriter(good)


@pytest.mark.parametrize("path", ["no/folder/a.tape", "nul\0.tape"])
def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, path):
    with pytest.raises(CockpitError, match="cannot be written"):
        TapeWriter(tmp_path / path)


def test_a_full_tape_takes_no_more_and_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tape, "MAX_OBSERVATIONS", 3)
    writer = TapeWriter(tmp_path / "a.tape")
    assert [writer.add(seen(float(second))) for second in range(5)] == [True, True, True, False, False]
    writer.close()
    assert len(read_tape(tmp_path / "a.tape").observations) == 3


def packed(*lines):
    return gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)  # names of tests are the same every time


HEADER = b'{"format":"cockpit-tape","version":1}'
LINE = msgspec.json.encode(seen(5.0))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is no tape"),
        (b"hello", "it is no tape"),
        (packed(), "it is no tape"),
        (packed(b"hello"), "it is no tape"),
        (packed(b'{"format":"other","version":1}'), "it is no tape"),
        (packed(b"[" * 100_000), "it is no tape"),
        (packed(b'{"format":"cockpit-tape","version":2}', LINE), "of version 2, and this cockpit reads version 1"),
        (packed(b'{"format":"cockpit-tape","version":2}', LINE), "with a newer cockpit"),
        (packed(b'{"format":"cockpit-tape","version":0}', LINE), "with the cockpit that recorded it"),
        (packed(HEADER), "nothing was recorded"),
        *[(packed(HEADER, msgspec.json.encode(seen(at))), "line 2 is of no time") for at in (1e300, 1e12, -1.0)],
        (packed(HEADER, b"{}"), "line 2: "),
        (packed(HEADER, LINE, b"\xff\xfe"), "line 3: "),
        (packed(HEADER, LINE.replace(b'"ready"', b'"flying"')), "line 2: "),
        (packed(HEADER, LINE, msgspec.json.encode(seen(4.0))), "line 3 is older"),
        (packed(HEADER, b"x" * (tape.MAX_LINE_BYTES + 1)), "line 2 passes the bound"),
        (packed(HEADER, LINE)[:40], "ends in the middle, before the first observation"),
    ],
)
def test_a_bad_tape_is_one_sentence(tmp_path, content, why):
    (tmp_path / "bad.tape").write_bytes(content)
    with pytest.raises(CockpitError) as caught:
        read_tape(tmp_path / "bad.tape")
    assert caught.value.exit_code == 2
    assert why in caught.value.sentence()
    assert "\n" not in caught.value.sentence()


def test_a_cut_tape_shows_what_is_intact(good, tmp_path):
    whole, cut = good.read_bytes(), tmp_path / "cut.tape"
    counts = []
    for length in range(20, len(whole), 7):
        cut.write_bytes(whole[:length])
        with contextlib.suppress(CockpitError):
            read = read_tape(cut)
            assert read.is_cut and read.observations == read_tape(good).observations[: len(read.observations)]
            counts.append(len(read.observations))
    assert counts == sorted(counts) and 1 in counts and counts[-1] >= 9
    assert Replay(read_tape(cut)).position.endswith(", cut off there")
    assert not read_tape(good).is_cut


def test_what_stands_behind_a_whole_tape_costs_nothing_of_it(good, tmp_path):
    more = tmp_path / "more.tape"
    more.write_bytes(good.read_bytes() + b"garbage")
    assert read_tape(more).observations == read_tape(good).observations
    assert read_tape(more).is_cut


def test_a_tape_whose_sum_is_wrong_is_not_believed(good, tmp_path):
    wrong = tmp_path / "wrong.tape"
    wrong.write_bytes(good.read_bytes()[:-8] + bytes(8))
    with pytest.raises(CockpitError, match="cannot be replayed"):
        read_tape(wrong)


def test_a_recorder_that_is_killed_leaves_a_tape(tmp_path):
    writer = TapeWriter(tmp_path / "a.tape")
    for second in range(8):
        writer.add(seen(float(second)))
    read = read_tape(tmp_path / "a.tape")
    assert read.is_cut and len(read.observations) >= 6
    writer.close()
    assert not read_tape(tmp_path / "a.tape").is_cut


def test_the_replay_of_a_cut_tape_says_so(good, tmp_path, capsys):
    cut = tmp_path / "cut.tape"
    cut.write_bytes(good.read_bytes()[:-12])
    assert main(["replay", str(cut), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["is_cut"] is True
    assert "ends in the middle" in err and err.count("\n") == 1


def test_a_tape_that_is_not_there_or_a_folder_is_a_sentence(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(CockpitError, match="cannot be read"):
            read_tape(path)


def test_more_observations_than_a_tape_may_hold_are_not_read(good, monkeypatch):
    monkeypatch.setattr(tape, "MAX_OBSERVATIONS", 5)
    with pytest.raises(CockpitError, match="cannot be replayed"):
        read_tape(good)


def test_a_small_file_that_unpacks_to_gigabytes_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(tape, "MAX_BYTES", 100_000)
    monkeypatch.setattr(tape, "MAX_OBSERVATIONS", 1_000)
    (tmp_path / "bomb").write_bytes(packed(HEADER, *[LINE] * 900))
    with pytest.raises(CockpitError, match="cannot be replayed"):
        read_tape(tmp_path / "bomb")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.floats(0, 1), value=st.integers(0, 255), cut=st.booleans())
def test_no_damage_gives_anything_but_a_tape_or_a_sentence(good, place, value, cut):
    content = bytearray(good.read_bytes())
    index = min(len(content) - 1, int(place * len(content)))
    content[index] = value
    bad = good.with_name("bad.tape")
    bad.write_bytes(content[:index] if cut else content)
    try:
        assert read_tape(bad).observations
    except CockpitError as error:
        assert error.title


def test_a_replay_shows_what_was_seen_at_each_moment_and_stays_at_its_end(good):
    now = 50.0
    replay = Replay(read_tape(good), clock=lambda: now)
    assert (replay.name, replay.is_live) == ("one", False)
    assert replay.tick().frame.at == 100.0
    now += 0.5
    assert replay.tick().lines == ()
    now += 2.5
    third = replay.tick()
    assert (third.frame.at, third.lines) == (103.0, ("line 1", "line 2", "line 3"))
    assert (replay.position, replay.at_end) == ("tape 3 of 9 s", False)
    now += 1000
    assert replay.tick().frame.at == 109.0
    assert replay.at_end
    assert (replay.tick().frame.at, replay.tick().lines) == (109.0, ())


def test_a_replay_can_be_faster(good):
    now = 0.0
    replay = Replay(read_tape(good), speed=4.0, clock=lambda: now)
    replay.tick()
    now = 2.0
    assert replay.tick().frame.at == 108.0


RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "tapes" / "cpu-0.32-mixed.tape"
"""A minute of the CPU build of vLLM 0.32 under short and long prompts with repeats."""


def test_the_rates_of_a_real_run_add_up_to_its_totals():
    frames = [seen.frame for seen in read_tape(RECORDED).observations]
    busy = [frame for frame in frames if frame.throughput.decode_tokens_per_second]
    assert len(busy) > 30
    compared = 0
    for late in busy:
        early = min(frames, key=lambda frame, late=late: abs(late.at - late.window_seconds - frame.at))
        if abs(late.at - late.window_seconds - early.at) > 0.05:
            continue
        compared += 1
        for rate, total in (
            (late.throughput.prefill_tokens_per_second, "prompt_computed_tokens"),
            (late.throughput.cached_prefill_tokens_per_second, "prompt_cached_tokens"),
            (late.throughput.decode_tokens_per_second, "generation_tokens"),
        ):
            grown = getattr(late.totals, total) - getattr(early.totals, total)
            assert rate * late.window_seconds == pytest.approx(grown, rel=0.001, abs=0.01)
    assert compared > 10


def test_a_real_tape_tells_no_machine_apart():
    text = gzip.decompress(RECORDED.read_bytes()).decode()
    assert len(RECORDED.read_bytes()) < 200_000
    for word in ("/root", "/home/", "hostname"):
        assert word not in text
