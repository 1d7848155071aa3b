"""Long prefills: shown while they run, and no spike when they are credited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth_modes import MODES

from cockpit.telemetry.blocks import extra_blocks
from cockpit.telemetry.figures import figures
from cockpit.telemetry.iterations import IterationCounter
from cockpit.telemetry.notes import ESTIMATED, IN_PROGRESS
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.scrape import CachePool, EngineScrape, Scrape
from cockpit.telemetry.vllm import parse_scrape
from cockpit.telemetry.window import Window, extend

WITHIN = 0.02


def frames_of(server, clock, seconds, log=None):
    """Figures of every second."""
    window, shown = Window(), []
    for _ in range(seconds + 1):
        scrape = parse_scrape(server.text().decode(), at=clock(), clock=clock())
        window = extend(window, scrape, 10.0, log)
        shown.append(figures(window, 10.0, log))
        clock.pass_seconds(1.0)
    return shown


def test_a_long_prefill_reads_as_its_speed_from_the_second_tick_to_its_credit_and_never_as_a_spike(truth, clock):
    shown = frames_of(truth("long-prefill"), clock, 60)
    speeds = [one.throughput.prefill_tokens_per_second for one in shown]
    assert speeds[1:41] == pytest.approx([2500] * 40, rel=WITHIN)
    # The first second of the second prompt counts together with the next one, which confirms it.
    assert max(speeds[1:]) <= 2500 * 1.1
    assert all(one.throughput.prefill_is_estimate for one in shown[1:41])
    at_20 = shown[20].throughput
    assert at_20.prefill_in_progress_tokens == pytest.approx(50_000, rel=WITHIN)
    assert IN_PROGRESS.format(at_20.prefill_in_progress_tokens) in shown[20].notes
    # At 42 s the credit came; the window still holds 8 s of the prefill.
    assert speeds[42] == pytest.approx(2500 * 8 / 10, rel=WITHIN)
    assert shown[42].throughput.prefill_in_progress_tokens is None
    assert ESTIMATED in shown[42].notes
    assert shown[43].throughput.decode_tokens_per_second == pytest.approx(50 * 3 / 10, rel=WITHIN)


def test_what_a_long_prefill_showed_adds_up_to_what_was_credited(truth, clock):
    shown = frames_of(truth("long-prefill"), clock, 88)
    # One frame in ten, so that no second counts twice.
    seen = sum(one.throughput.prefill_tokens_per_second * 10 for one in shown[10:90:10])
    assert seen == pytest.approx(2500 * (40 + 36), rel=WITHIN)


@pytest.mark.parametrize("mode", sorted(MODES.keys() - {"long-prefill", "not-vllm"}))
def test_a_load_without_long_prompts_is_left_to_the_counters(truth, clock, mode):
    for one in frames_of(truth(mode), clock, 12, LogPool(capacity_tokens=884_160)):
        assert not one.throughput.prefill_is_estimate
        assert one.throughput.prefill_in_progress_tokens is None


def pool(**labels):
    return CachePool(
        capacity_tokens=100_000, max_concurrency=10.0, holds_state_blocks=False, block_tokens=16, **labels
    )


def scrape(second, used, running=1.0, computed=0.0, waiting=0.0, **counters):
    engine = EngineScrape(
        counters={"prompt_from:local_compute": computed, **counters},
        gauges={"kv_usage": used / 100_000, "running": running, "waiting": waiting},
        pool=pool(),
    )
    return Scrape(at=second, clock=second, engines={"0": engine})


def prefill(*scrapes):
    window = Window()
    for one in scrapes:
        window = extend(window, one, 10.0)
    return figures(window, 10.0).throughput


def test_one_jump_of_the_pool_beside_credited_prompts_is_no_prefill_and_two_are_one():
    first = [scrape(0, 0), scrape(1, 1_000, computed=1_000.0), scrape(2, 21_000, computed=1_500.0)]
    assert not prefill(*first).prefill_is_estimate
    assert prefill(*first, scrape(3, 41_000, computed=2_000.0)).prefill_in_progress_tokens == 39_000
    assert not prefill(
        *first, scrape(3, 21_000, computed=9_000.0), scrape(4, 31_000, computed=9_000.0)
    ).prefill_is_estimate


def test_decoding_and_cached_prefixes_are_no_prefill():
    shown = prefill(
        scrape(0, 0, generation=0.0, prefix_hits=0.0), scrape(1, 30_000, generation=5_000.0, prefix_hits=25_000.0)
    )
    assert shown.prefill_tokens_per_second == 0.0
    assert shown.prefill_in_progress_tokens is None


def test_a_prefill_that_is_given_up_was_computed_and_leaves_no_debt():
    scrapes = [scrape(0, 0), scrape(1, 20_000), scrape(2, 40_000), scrape(3, 0, running=0.0)]
    given_up = prefill(*scrapes)
    assert given_up.prefill_in_progress_tokens is None
    assert given_up.prefill_tokens_per_second == pytest.approx(40_000 / 3)
    later = prefill(*scrapes, scrape(4, 500, computed=500.0), scrape(5, 500, computed=500.0))
    assert later.prefill_tokens_per_second == pytest.approx(40_500 / 5)


def test_a_preempted_request_that_comes_back_is_no_prefill_in_progress():
    """Two requests of 40,000 tokens decode; one loses its blocks, waits, and gets them again chunk by chunk."""
    scrapes = [
        scrape(0, 80_000, running=2.0, computed=80_000.0, preemptions=0.0),
        scrape(1, 40_000, computed=80_000.0, preemptions=1.0, waiting=1.0),
        *(scrape(2 + s, 48_000 + 8_000 * s, running=2.0, computed=80_000.0, preemptions=1.0) for s in range(5)),
    ]
    for last in range(2, len(scrapes) + 1):
        shown = prefill(*scrapes[:last])
        assert shown.prefill_in_progress_tokens is None and shown.prefill_tokens_per_second == 0.0
    # All that was owed is back: what comes now is a prompt.
    more = [scrape(7 + s, 80_000 + 4_000 * s, running=3.0, computed=80_000.0, preemptions=1.0) for s in range(1, 4)]
    assert prefill(*scrapes, *more).prefill_in_progress_tokens == 12_000


def test_a_preempted_request_that_waits_alone_is_owed_its_tokens_all_the_same():
    gone = scrape(1, 0, running=0.0, waiting=1.0, preemptions=1.0)
    scrapes = [scrape(0, 40_000, preemptions=0.0), gone, scrape(2, 20_000, preemptions=1.0)]
    assert prefill(*scrapes, scrape(3, 40_000, preemptions=1.0)).prefill_in_progress_tokens is None


def test_the_pool_of_a_version_that_does_not_label_it_is_the_logs():
    engine = EngineScrape(counters={"prompt": 0.0}, gauges={"kv_usage": 0.0, "running": 1.0})
    later = EngineScrape(counters={"prompt": 0.0}, gauges={"kv_usage": 0.5, "running": 1.0})
    window = Window()
    for second, one in enumerate((engine, later)):
        window = extend(
            window, Scrape(at=second, clock=second, engines={"0": one}), 10.0, LogPool(capacity_tokens=60_000)
        )
    assert figures(window, 10.0).throughput.prefill_tokens_per_second == pytest.approx(30_000)


def test_a_hybrids_state_blocks_are_no_prompt(recorded):
    scraped = parse_scrape(recorded("h200-0.26-q38-ar4-mtp3"), at=1.0).engines["0"]
    # 176 blocks a request of 262,144 tokens, 164 of them attention's; 3 state groups and 1 + 3 drafts make 12.
    assert extra_blocks(scraped.pool) == 12

    def at(second, blocks, running):
        gauges = {"kv_usage": blocks / 2107, "running": running}
        engine = EngineScrape(counters={"prompt": 0.0}, gauges=gauges, pool=scraped.pool)
        return Scrape(at=second, clock=second, engines={"0": engine})

    assert prefill(at(0, 0, 0.0), at(1, 14, 1.0)).prefill_in_progress_tokens is None
    assert prefill(at(0, 0, 0.0), at(1, 14, 1.0), at(2, 42, 1.0)).prefill_in_progress_tokens == 30 * 1600


def test_blocks_of_sliding_windows_are_no_prompt():
    # 131,072 tokens in blocks of 16: 8,192 of the layers that keep all, 5 groups of 193 of a window of 1,024 tokens.
    window = CachePool(
        capacity_tokens=1_310_720, max_concurrency=10.0, blocks=91_570, block_tokens=16, holds_state_blocks=False
    )
    assert extra_blocks(window) == 965

    def at(second, tokens):
        blocks = -(-tokens // 16) + 5 * -(-min(tokens, 2_048) // 16)
        gauges = {"kv_usage": blocks / 91_570, "running": 1.0}
        engine = EngineScrape(counters={"prompt_from:local_compute": 0.0}, gauges=gauges, pool=window)
        return Scrape(at=second, clock=second, engines={"0": engine})

    scrapes = [at(second, 2_500 * second) for second in range(31)]
    for last in range(2, 31):
        shown = prefill(*scrapes[: last + 1]).prefill_in_progress_tokens
        assert (shown or 0) <= 2_500 * last
    assert shown == pytest.approx(75_000, abs=965 * 16)


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 3), st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5)),
        min_size=2,
        max_size=30,
    )
)
def test_no_sequence_of_figures_gives_a_negative_or_an_endless_prefill(steps):
    window, computed, generated, hits = Window(), 0.0, 0.0, 0.0
    for second, (use, running, prompt, decoded, cached) in enumerate(steps):
        computed, generated, hits = computed + prompt, generated + decoded, hits + cached
        one = scrape(second, use * 100_000, float(running), computed, generation=generated, prefix_hits=hits)
        window = extend(window, one, 5.0)
        shown = figures(window, 5.0).throughput
        assert shown.prefill_tokens_per_second is None or shown.prefill_tokens_per_second >= 0
        assert len(window.uncredited) == len(window.scrapes)
        # No more can be on its way than the pool holds.
        assert (shown.prefill_in_progress_tokens or 0) <= use * 100_000 + 1


def test_iteration_details_of_the_log_are_the_computed_tokens():
    counter = IterationCounter()
    assert counter.tokens is None
    counter.feed(["Engine 000: Avg prompt throughput: 5.0 tokens/s", "an Iteration( of nothing"])
    assert counter.tokens is None
    counter.feed(
        [
            "(EngineCore pid=5) INFO 11-30 01:00:00 [core.py:384] Iteration(7): 1 context requests, 2048 context "
            "tokens, 3 generation requests, 3 generation tokens, iteration elapsed time: 80.12 ms",
            "(APIServer pid=4) INFO 11-30 01:00:00 [loggers.py:199] Engine 000: Iteration(8): 1 context requests, "
            "952 context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 9.00 ms, GPU KV "
            "cache usage: 1.0%",
        ]
    )
    assert counter.tokens == 3000
    old, new = (
        Scrape(at=s, clock=s, engines={"0": EngineScrape()}, context_tokens=t) for s, t in ((1, 1e6), (3, 1e6))
    )
    window = extend(extend(Window(), old, 10.0), new, 10.0)
    assert figures(window, 10.0).throughput.prefill_tokens_per_second == 0.0
    assert figures(window, 10.0).throughput.prefill_basis == "iteration_log"


@pytest.mark.parametrize("requests", [0.0, 1e-300, 1e-9, None])
def test_a_pool_that_holds_next_to_no_request_says_nothing_of_its_blocks(requests):
    pool = CachePool(capacity_tokens=10**18, max_concurrency=requests, blocks=10**18, block_tokens=1)
    assert extra_blocks(pool) is None
