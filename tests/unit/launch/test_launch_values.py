"""Kinds of toggle values: text in, text out, and the steps between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.errors import CockpitError
from cockpit.launch.toggles import BY_ID, TOGGLES
from cockpit.launch.values import Choice, Indices, Kind, Share, Text, Whole, parse_value

CONTEXT = Whole(low=16, high=16 * 1024 * 1024, doubling=True)
PORT = Whole(low=1, high=65535, grouped=False)
SEQUENCES = Whole(low=1, high=4096, optional=True)
WORDS = Choice(words=("off", "on"))
CACHING = Choice(words=("on", "off"), optional=True)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (CONTEXT, "131072", 131072),
        (CONTEXT, "256K", 262144),
        (CONTEXT, "256k", 256000),
        (CONTEXT, "1M", 1048576),
        (CONTEXT, "1m", 1000000),
        (CONTEXT, "262,144", 262144),
        (CONTEXT, "262_144", 262144),
        (CONTEXT, " 4096 ", 4096),
        (PORT, "8000", 8000),
        (SEQUENCES, "default", None),
        (WORDS, "on", "on"),
        (CACHING, "default", None),
        (BY_ID["kv_cache_dtype"].kind, "fp8", "fp8_e4m3"),
        (Share(), "0.92", 0.92),
        (Share(), "1", 1.0),
        (Share(), "default", None),
        (Indices(), "0", (0,)),
        (Indices(), "1, 0", (1, 0)),
        (Text(), "127.0.0.1", "127.0.0.1"),
        (Text(), "fe80::1", "fe80::1"),
    ],
)
def test_text_becomes_a_value(kind: Kind, text: str, value: Any) -> None:
    assert parse_value("x", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "advice"),
    [
        (CONTEXT, "", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "lots", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "K", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "-5", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "4096.0", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "٤٠٩٦", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "9" * 10_000, "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "default", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "15", "Use a whole number, 16 to 16,777,216."),
        (CONTEXT, "17M", "Use a whole number, 16 to 16,777,216."),
        (PORT, "0", "Use a whole number, 1 to 65535."),
        (PORT, "65536", "Use a whole number, 1 to 65535."),
        (SEQUENCES, "x", "Use a whole number, 1 to 4,096, or default."),
        (WORDS, "true", "Use one of off, on."),
        (WORDS, "ON", "Use one of off, on."),
        (WORDS, "", "Use one of off, on."),
        (CACHING, "auto", "Use one of on, off, default."),
        (Share(), "0", "Use a number above 0 and up to 1, such as 0.92, or default."),
        (Share(), "0.00001", "Use a number above 0 and up to 1, such as 0.92, or default."),
        (Share(), "1.01", "Use a number above 0 and up to 1, such as 0.92, or default."),
        (Share(), "nan", "Use a number above 0 and up to 1, such as 0.92, or default."),
        (Share(), "inf", "Use a number above 0 and up to 1, such as 0.92, or default."),
        (Share(), "92%", "Use a number above 0 and up to 1, such as 0.92, or default."),
        (Indices(), "", "Use GPU indices separated by commas, such as 0,1."),
        (Indices(), "0,", "Use GPU indices separated by commas, such as 0,1."),
        (Indices(), "0-1", "Use GPU indices separated by commas, such as 0,1."),
        (Indices(), "1000", "Use GPU indices separated by commas, such as 0,1."),
        (Indices(), "0,0", "Name each GPU once."),
        (Text(), "", "Use a host name or address, such as 127.0.0.1."),
        (Text(), "--help", "Use a host name or address, such as 127.0.0.1."),
        (Text(), "a b", "Use a host name or address, such as 127.0.0.1."),
        (Text(), "$(reboot)", "Use a host name or address, such as 127.0.0.1."),
    ],
)
def test_what_cannot_be_used_gets_advice(kind: Kind, text: str, advice: str) -> None:
    with pytest.raises(CockpitError) as caught:
        parse_value("toggle", kind, text)
    assert caught.value.title.startswith("toggle=")
    assert len(caught.value.title) < 80
    assert caught.value.fix == advice


@pytest.mark.parametrize("toggle", TOGGLES, ids=lambda toggle: toggle.id)
@settings(max_examples=40)
@given(text=st.text(max_size=30) | st.from_regex(r"[0-9.,eEkKmM_-]{1,12}", fullmatch=True))
def test_no_text_is_a_surprise_and_what_is_taken_is_stable(toggle: Any, text: str) -> None:
    kind = toggle.kind
    try:
        value = parse_value(toggle.id, kind, text)
    except CockpitError as error:
        assert error.fix
        return
    if value is not None:
        assert kind.parse(kind.show(value)) == value


WHOLES = st.tuples(st.sampled_from([CONTEXT, PORT, SEQUENCES]), st.integers(1, 2**24)).map(
    lambda pair: (pair[0], max(pair[0].low, min(pair[0].high, pair[1])))
)


@given(WHOLES, st.sampled_from([1, -1]))
def test_a_whole_number_steps_inside_its_bounds(whole: tuple[Whole, int], direction: int) -> None:
    kind, value = whole
    after = kind.step(value, direction)
    assert kind.low <= after <= kind.high
    assert kind.parse(kind.show(after)) == after
    assert (after - value) * direction >= 0


def test_context_steps_by_factors_of_two_and_the_rest_by_one() -> None:
    assert CONTEXT.step(32768, 1) == 65536
    assert CONTEXT.step(32768, -1) == 16384
    assert PORT.step(8000, 1) == 8001
    assert SEQUENCES.step(None, 1) == 1


@given(st.none() | st.floats(0.0001, 1.0), st.sampled_from([1, -1]))
def test_a_share_steps_inside_its_bounds(value: float | None, direction: int) -> None:
    after = Share().step(value, direction)
    assert 0.05 <= after <= 1.0
    assert Share().parse(Share().show(after)) == after


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True).map(tuple))
def test_gpus_step_up_and_back(indices: tuple[int, ...]) -> None:
    more = Indices().step(indices, 1)
    assert len(set(more)) == len(indices) + 1
    assert Indices().step(more, -1) == indices
    assert Indices().parse(Indices().show(more)) == more


def test_one_gpu_is_the_least() -> None:
    assert Indices().step((3,), -1) == (3,)
    assert Indices().step((), 1) == (0,)


@pytest.mark.parametrize("kind", [WORDS, CACHING, Choice(words=("a", "b", "c"))])
def test_a_choice_steps_through_all_of_its_words_and_back(kind: Choice) -> None:
    ring = [*kind.words, None] if kind.optional else list(kind.words)
    value, seen = ring[0], []
    for _ in ring:
        seen.append(value)
        assert kind.step(kind.step(value, 1), -1) == value
        value = kind.step(value, 1)
    assert (seen, value) == (ring, ring[0])


def test_a_word_from_outside_the_choice_steps_to_the_first() -> None:
    assert WORDS.step("fp8", 1) == "off"


def test_a_host_steps_between_loopback_and_every_interface() -> None:
    assert Text().step("127.0.0.1", 1) == "0.0.0.0"
    assert Text().step("0.0.0.0", 1) == "127.0.0.1"
    assert Text().step("rig.lan", -1) == "127.0.0.1"


def test_what_is_left_to_vllm_says_so() -> None:
    assert SEQUENCES.show(None) == CACHING.show(None) == Share().show(None) == "vLLM default"
    assert CONTEXT.show(262144) == "262,144"
    assert PORT.show(8000) == "8000"
    assert Indices().show(()) == "none"
