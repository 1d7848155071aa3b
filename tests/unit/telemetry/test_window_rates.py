"""Windows of scrapes: length, restarts, and rates against a known truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth_modes import MODES
from truth_server import TruthServer

from cockpit.telemetry.figures import figures
from cockpit.telemetry.notes import BY_CACHED, BY_HITS, FROM_LOG, INCLUDING_CACHED, NO_FIGURES, PREEMPTED, RESTARTED
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.scrape import EngineScrape, Scrape
from cockpit.telemetry.vllm import parse_scrape
from cockpit.telemetry.window import Window, extend

WITHIN = 0.02


def scrape(clock, generation=0.0, **counters):
    return Scrape(at=clock, clock=clock, engines={"0": EngineScrape(counters={"generation": generation, **counters})})


def window_of(*scrapes, seconds=10.0):
    window = Window()
    for one in scrapes:
        window = extend(window, one, seconds)
    return window


def observe(server: TruthServer, clock, seconds=10, log_capacity=None):
    """Figures after ``seconds`` ticks of one second each."""
    window = Window()
    for _ in range(seconds + 1):
        window = extend(window, parse_scrape(server.text().decode(), at=clock(), clock=clock()), 10.0)
        clock.pass_seconds(1.0)
    return figures(window, 10.0, None if log_capacity is None else LogPool(capacity_tokens=log_capacity))


def test_rates_are_unknown_until_two_scrapes_exist(truth, clock):
    shown = observe(truth("steady"), clock, seconds=0)
    assert shown.window_seconds is None
    assert shown.throughput.decode_tokens_per_second is None
    assert shown.requests.preemptions_per_second is None
    assert shown.requests.running == 2
    assert shown.kv.used_fraction == 0.37


def test_a_steady_load_reads_as_it_is(truth, clock):
    shown = observe(truth("steady"), clock)
    speed = shown.throughput
    assert shown.window_seconds == 10.0
    assert speed.prefill_tokens_per_second == pytest.approx(2500, rel=WITHIN)
    assert speed.cached_prefill_tokens_per_second == pytest.approx(1100, rel=WITHIN)
    assert speed.decode_tokens_per_second == pytest.approx(90, rel=WITHIN)
    assert speed.prefill_tokens_per_second_per_request == pytest.approx(2500 / 40 / 0.05, rel=WITHIN)
    assert speed.prefill_basis == "by_source"
    assert (shown.requests.running, shown.requests.waiting) == (2, 1)
    assert shown.requests.preemptions_per_second == pytest.approx(0.5)
    assert shown.kv.used_tokens == round(0.37 * 884_160)
    assert shown.latency.ttft_seconds.mean == pytest.approx(0.07, rel=WITHIN)
    assert shown.latency.ttft_seconds.p95 == pytest.approx(0.079, rel=WITHIN)
    assert shown.latency.inter_token_seconds.mean == pytest.approx(0.0175, rel=WITHIN)
    assert shown.latency.inter_token_seconds.p95 == pytest.approx(0.02425, rel=WITHIN)
    assert shown.latency.queue_seconds.mean == pytest.approx(0.0001, rel=WITHIN)
    assert shown.latency.queue_seconds.p95 <= 0.0021
    assert shown.prefix_cache.hit_fraction_window == pytest.approx(1100 / 3600, rel=WITHIN)
    assert shown.prefix_cache.hit_fraction_lifetime == pytest.approx(1100 / 3600, rel=WITHIN)
    assert shown.speculative is None
    assert shown.sleep_state == "awake"
    assert shown.totals.generation_tokens == 900
    assert shown.totals.prompt_computed_tokens == 25_000
    assert shown.totals.prompt_cached_tokens == 11_000
    assert shown.totals.requests_finished == 400
    assert shown.notes == (PREEMPTED,)


def test_an_idle_server_shows_zero_rates_and_unknown_latencies(truth, clock):
    shown = observe(truth("idle"), clock)
    assert shown.throughput.prefill_tokens_per_second == 0.0
    assert shown.throughput.cached_prefill_tokens_per_second == 0.0
    assert shown.throughput.decode_tokens_per_second == 0.0
    assert shown.throughput.prefill_tokens_per_second_per_request is None
    assert shown.requests.preemptions_per_second == 0.0
    assert shown.latency.ttft_seconds.mean is None
    assert shown.latency.ttft_seconds.p95 is None
    assert shown.prefix_cache.hit_fraction_window is None
    assert shown.prefix_cache.hit_fraction_lifetime is None


def test_a_hybrid_shows_its_pool_as_a_share_and_its_labelled_capacity(truth, clock):
    shown = observe(truth("hybrid"), clock)
    assert shown.kv.capacity_tokens == 263_672
    assert shown.kv.used_tokens is None
    assert shown.kv.used_fraction == 0.37
    assert shown.kv.holds_state_blocks is True


def test_draft_acceptance_counts_the_verified_token(truth, clock):
    shown = observe(truth("mtp"), clock)
    assert shown.speculative is not None
    assert shown.speculative.acceptance_length == pytest.approx(2.6, rel=WITHIN)
    assert shown.speculative.acceptance_fraction == pytest.approx(1.6 / 3, rel=WITHIN)
    assert shown.speculative.acceptance_per_position == pytest.approx((0.8, 0.5, 0.3), rel=WITHIN)


def test_two_engines_are_added_and_their_use_is_weighted_by_capacity(truth, clock):
    shown = observe(truth("dp2"), clock)
    assert shown.engines == 2
    assert shown.kv.capacity_tokens == 400_000
    assert shown.kv.max_concurrency == pytest.approx(400_000 / 16_384)
    assert shown.kv.used_fraction == pytest.approx(0.2)
    assert shown.kv.used_tokens == 80_000
    assert shown.requests.running == 4
    assert shown.throughput.decode_tokens_per_second == pytest.approx(120, rel=WITHIN)
    assert shown.throughput.prefill_tokens_per_second == pytest.approx(5000, rel=WITHIN)
    assert shown.latency.ttft_seconds.p95 == pytest.approx(0.079, rel=WITHIN)


def test_a_percentile_in_the_last_bucket_is_marked_as_a_lower_bound(truth, clock):
    shown = observe(truth("overflow"), clock)
    assert shown.latency.ttft_seconds.p95 == 10.0
    assert shown.latency.ttft_seconds.p95_is_lower_bound
    assert any("TTFT p95" in note for note in shown.notes)


@pytest.mark.parametrize(
    ("mode", "note", "computed", "cached"),
    [
        ("old-cached", BY_CACHED, 2500, 1100),
        ("old", BY_HITS, 2500, 1100),
        ("old-blind", INCLUDING_CACHED, 3600, None),
    ],
)
def test_older_versions_are_read_by_what_they_count_and_it_is_said(truth, clock, mode, note, computed, cached):
    shown = observe(truth(mode), clock, log_capacity=884_160)
    assert shown.throughput.prefill_tokens_per_second == pytest.approx(computed, rel=WITHIN)
    if cached is None:
        assert shown.throughput.cached_prefill_tokens_per_second is None
        assert shown.totals.prompt_computed_tokens is None
    else:
        assert shown.throughput.cached_prefill_tokens_per_second == pytest.approx(cached, rel=WITHIN)
        assert shown.totals.prompt_computed_tokens == pytest.approx(25_000, rel=WITHIN)
    assert shown.latency.inter_token_seconds.mean == pytest.approx(0.0175, rel=WITHIN)
    assert shown.prefix_cache.hit_fraction_window == pytest.approx(1100 / 3600, rel=WITHIN)
    assert shown.kv.capacity_tokens == 884_160
    assert shown.kv.used_tokens == round(0.37 * 884_160)
    assert note in shown.notes
    assert FROM_LOG in shown.notes


def test_an_old_version_without_a_log_has_no_capacity(truth, clock):
    shown = observe(truth("old"), clock)
    assert shown.kv.capacity_tokens is None
    assert shown.kv.used_tokens is None
    assert shown.kv.used_fraction == 0.37


def test_a_server_without_vllm_figures_says_so(truth, clock):
    shown = observe(truth("not-vllm"), clock)
    assert shown.engines is None
    assert shown.notes == (NO_FIGURES,)


@pytest.mark.parametrize("new_process", [True, False])
def test_a_restart_drops_the_baseline_is_said_and_is_forgotten_after_a_window(truth, clock, new_process):
    server = truth("restart")
    window = Window()

    def tick():
        nonlocal window
        clock.pass_seconds(1.0)
        window = extend(window, parse_scrape(server.text().decode(), at=clock(), clock=clock()), 5.0)
        return figures(window, 5.0)

    for _ in range(3):
        tick()
    server.restart(new_process)
    after = tick()
    assert after.throughput.decode_tokens_per_second is None
    assert RESTARTED in after.notes
    again = tick()
    assert again.throughput.decode_tokens_per_second == pytest.approx(90, rel=WITHIN)
    assert RESTARTED in again.notes
    for _ in range(5):
        later = tick()
    assert RESTARTED not in later.notes


def test_a_restart_is_seen_by_the_process_start_even_when_counters_grew():
    old = Scrape(at=1, clock=1, engines=scrape(1, 5.0).engines, process_started_at=100.0)
    new = Scrape(at=2, clock=2, engines=scrape(2, 50.0).engines, process_started_at=160.0)
    assert len(window_of(old, new).scrapes) == 1


def test_another_set_of_engines_is_a_new_beginning():
    two = Scrape(at=2, clock=2, engines={"0": EngineScrape(), "1": EngineScrape()})
    assert len(window_of(scrape(1), two).scrapes) == 1


def test_an_answer_without_figures_between_two_lives_makes_no_rate_of_zero():
    window = window_of(scrape(1, 500.0), Scrape(at=2, clock=2), scrape(3, 4.0))
    assert window.change is None


def test_the_window_keeps_ten_seconds_and_after_a_gap_the_two_newest():
    window = window_of(*(scrape(second * 1.003, second * 90.0) for second in range(40)))
    assert window.change.seconds == pytest.approx(10.03)
    late = extend(window, scrape(100.0, 9000.0), 10.0)
    assert [one.clock for one in late.scrapes] == [39 * 1.003, 100.0]


def test_two_scrapes_at_the_same_moment_give_no_rate():
    assert window_of(scrape(1, 5.0), scrape(1, 9.0)).change is None


def test_more_hits_than_prompt_tokens_in_a_window_read_as_zero_computed():
    window = window_of(scrape(1, prompt=0.0, prefix_hits=0.0), scrape(2, prompt=10.0, prefix_hits=64.0))
    assert figures(window, 10).throughput.prefill_tokens_per_second == 0.0


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=2, max_size=30))
def test_no_sequence_of_counter_values_gives_a_negative_rate(values):
    window = Window()
    for second, value in enumerate(values):
        window = extend(window, scrape(float(second), value, prompt=value), 5.0)
        speed = figures(window, 5.0).throughput
        for rate in (speed.decode_tokens_per_second, speed.prefill_tokens_per_second):
            assert rate is None or rate >= 0


def test_the_truths_of_all_modes_can_be_published(clock):
    for mode in MODES:
        with TruthServer(mode, clock=clock) as server:
            assert server.text().endswith(b"\n")


def test_counters_made_anew_are_a_restart_even_when_they_have_grown():
    def one(second, created, generation):
        engine = EngineScrape(counters={"generation": generation}, created_at=created)
        return Scrape(at=second, clock=second, engines={"0": engine})

    assert figures(window_of(one(0, 5.0, 10.0), one(1, 5.2, 20.0)), 10.0).throughput.decode_tokens_per_second == 10.0
    anew = figures(window_of(one(0, 5.0, 10.0), one(1, 9.0, 20.0)), 10.0)
    assert anew.throughput.decode_tokens_per_second is None
    assert RESTARTED in anew.notes


@pytest.mark.parametrize("value", ["1e308", "1e19", "+Inf", "NaN", "-1", "9" * 400])
def test_impossible_values_are_unknown_and_nothing_overflows(value):
    names = ("generation_tokens_total", "prompt_tokens_total", "num_requests_running", "kv_cache_usage_perc")
    lines = [f'vllm:{name}{{engine="{engine}",model_name="m"}} {value}' for name in names for engine in (0, 1)]
    pool = 'num_gpu_blocks="{0}",block_size="16",kv_cache_size_tokens="{0}",kv_cache_max_concurrency="{0}"'
    lines.append(f'vllm:cache_config_info{{engine="0",mamba_cache_mode="none",{pool.format(value)}}} 1.0')
    text = "".join(f"{line}\n" for line in lines)
    shown = figures(window_of(parse_scrape(text, at=0.0), parse_scrape(text, at=1.0)), 10.0)
    assert shown.totals.generation_tokens is None
    assert shown.requests.running is None
    assert (shown.kv.capacity_tokens, shown.kv.used_tokens) == (None, None)


def observations(engine, count, total, name="time_to_first_token_seconds"):
    labels = f'engine="{engine}",model_name="m"'
    return (
        f'vllm:{name}_bucket{{{labels},le="1.0"}} {count}\nvllm:{name}_bucket{{{labels},le="+Inf"}} {count}\n'
        f"vllm:{name}_sum{{{labels}}} {total}\nvllm:{name}_count{{{labels}}} {count}\n"
    )


def latency_of(*moments):
    scrapes = [parse_scrape(text, at=second, clock=float(second)) for second, text in enumerate(moments)]
    return figures(window_of(*scrapes), 10.0).latency


def test_a_latency_that_one_engine_does_not_give_is_no_mean_of_the_others():
    both = latency_of(
        observations(0, 0, 0.0) + observations(1, 0, 0.0), observations(0, 10, 1.0) + observations(1, 10, 3.0)
    )
    assert both.ttft_seconds.mean == pytest.approx(0.2)
    torn = latency_of(
        observations(0, 0, 0.0) + observations(1, 0, 0.0), observations(0, 10, 1.0) + observations(1, 10, "NaN")
    )
    assert torn.ttft_seconds.mean is None


def test_engines_of_an_old_and_a_new_version_are_put_together_by_either_name():
    old, new = "time_per_output_token_seconds", "inter_token_latency_seconds"
    shown = latency_of(
        observations(0, 0, 0.0, old) + observations(1, 0, 0.0, new),
        observations(0, 10, 1.0, old) + observations(1, 10, 3.0, new),
    )
    assert shown.inter_token_seconds.mean == pytest.approx(0.2)
