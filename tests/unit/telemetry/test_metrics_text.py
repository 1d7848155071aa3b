"""The text of /metrics becomes a Scrape, whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from cockpit.telemetry import vllm
from cockpit.telemetry.figures import figures
from cockpit.telemetry.pool import LogPool, kv
from cockpit.telemetry.series import parse_series
from cockpit.telemetry.vllm import parse_scrape
from cockpit.telemetry.window import Window, extend


def test_the_cpu_server_has_room_for_2097152_tokens(recorded):
    scrape = parse_scrape(recorded("cpu-0.32-tiny"), at=5.0)
    pool = kv(scrape)
    assert pool.capacity_tokens == 2_097_152
    assert pool.max_concurrency == 1024.0
    assert pool.used_fraction == 0.0
    assert pool.used_tokens == 0
    assert pool.holds_state_blocks is False
    assert scrape.counter("generation") == 58
    assert scrape.counter("prompt_from:local_compute") == 22
    assert scrape.counter("finished") == 1
    assert scrape.engines["0"].sleep_state == "awake"
    assert scrape.process_started_at == 1.79598211946e9
    assert scrape.skipped_lines == 0


@pytest.mark.parametrize(
    ("name", "capacity", "concurrency"),
    [("h200-0.26-ct4-graph", 884_160, 53.96484375), ("h200-0.26-ct4-marlin-int8", 886_864, 54.1298828125)],
)
def test_the_gpu_servers_say_their_capacity_in_tokens(recorded, name, capacity, concurrency):
    scrape = parse_scrape(recorded(name), at=5.0)
    pool = kv(scrape)
    assert (pool.capacity_tokens, pool.max_concurrency) == (capacity, concurrency)
    assert scrape.counter("generation") == 274
    assert scrape.engines["0"].histograms["ttft"].count == 12


def test_a_hybrid_server_gives_no_used_tokens_although_its_cache_mode_is_none(recorded):
    scrape = parse_scrape(recorded("h200-0.26-q38-ar4-mtp3"), at=5.0)
    pool = kv(scrape)
    assert pool.capacity_tokens == 3_138_280
    assert pool.holds_state_blocks is True
    assert pool.used_tokens is None
    assert pool.used_fraction == 0.0
    shown = figures(Window(scrapes=(scrape,)), seconds=10)
    assert shown.speculative is not None
    assert any("Hybrid" in note for note in shown.notes)


def test_the_first_time_at_which_an_engine_counted_is_when_its_counters_were_made(recorded):
    twins = "".join(f'vllm:generation_tokens_created{{engine="0",model_name="{n}"}} 1.7{n}e9\n' for n in (4, 2, 3))
    assert parse_scrape(recorded("cpu-0.32-tiny") + twins, at=1.0).engines["0"].created_at == 1.72e9


def test_several_processes_behind_one_address_have_no_start_together(recorded):
    text = recorded("cpu-0.32-tiny")
    assert parse_scrape(text, at=1.0).process_started_at is not None
    second = 'process_start_time_seconds{pod="b"} 1.7e9\n'
    assert parse_scrape(text + second, at=1.0).process_started_at is None


def test_created_twins_and_unused_families_are_not_read(recorded):
    text = recorded("cpu-0.32-tiny")
    noise = 'vllm:prompt_tokens_created{engine="0"} 1.7e9\nvllm:e2e_request_latency_seconds_sum 4\n'
    assert parse_scrape(text + noise, at=1.0) == parse_scrape(text, at=1.0)


def test_a_last_line_without_its_end_is_not_believed():
    text = 'vllm:generation_tokens_total{engine="0"} 12345\nvllm:prompt_tokens_total{engine="0"} 99'
    assert parse_scrape(text, at=1.0).engines["0"].counters == {"generation": 12345}


def test_nan_infinite_and_negative_values_are_unknown():
    text = "".join(
        f'vllm:num_requests_running{{engine="{value}"}} {value}\n' for value in ("NaN", "+Inf", "-Inf", "-1", "3")
    )
    assert parse_scrape(text, at=1.0).gauge("running") == 3


def test_unreadable_lines_are_counted_and_cost_no_other_line():
    text = (
        'vllm:num_requests_waiting{engine="0"} 7\n'
        'vllm:generation_tokens_total{engine="0" 5\n'
        "vllm:prompt_tokens_total{engine='0'} 5\n"
        'vllm:num_requests_running{engine="0"} many\n'
        'vllm:num_requests_running{engine="0"} 1_0\n'
        "vllm:num_preemptions_total\n"
        'vllm:num_preemptions_total{engine="0"} 2 1795982119000\n'
    )
    scrape = parse_scrape(text, at=1.0)
    assert scrape.skipped_lines == 5
    assert scrape.gauge("waiting") == 7
    assert scrape.counter("preemptions") == 2


def test_label_values_may_hold_quotes_braces_commas_and_line_separators():
    text = 'vllm:num_requests_running{engine="0",model_name="a} 9 \\"x\\", \\\\ \u2028{b"} 4\n'
    assert parse_scrape(text, at=1.0).gauge("running") == 4


def test_both_names_of_a_renamed_family_are_not_added_up():
    text = 'vllm:kv_cache_usage_perc{engine="0"} 0.4\nvllm:gpu_cache_usage_perc{engine="0"} 0.4\n'
    assert kv(parse_scrape(text, at=1.0)).used_fraction == pytest.approx(0.4)


def test_exemplars_times_and_the_end_mark_of_openmetrics_are_no_part_of_a_value():
    text = (
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"} 3 # {trace_id="a} 9"} 0.5 1795982119.5\n'
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 4 1795982119.5 # {} 2.0\n'
        'vllm:time_to_first_token_seconds_sum{engine="0"} 2.5e+00\n'
        'vllm_num_requests_running{engine="0",model_name="m"} 2.0\n'
        "# EOF\n"
    )
    scrape = parse_scrape(text, at=1.0)
    ttft = scrape.engines["0"].histograms["ttft"]
    assert (ttft.cumulative, ttft.count, ttft.total) == ((3.0,), 4.0, 2.5)
    assert (scrape.gauge("running"), scrape.models, scrape.skipped_lines) == (2, ("m",), 0)


def test_a_series_that_stands_twice_counts_once_and_a_share_of_two_names_is_no_sum():
    text = (
        'vllm:generation_tokens_total{engine="0",model_name="a"} 5\n'
        'vllm:generation_tokens_total{engine="0",model_name="a"} 7\n'
        'vllm:generation_tokens_total{engine="0",model_name="b"} 100\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.6\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="b"} 0.7\n'
    )
    scrape = parse_scrape(text, at=1.0)
    assert scrape.counter("generation") == 107
    assert kv(scrape).used_fraction == 0.7


@pytest.mark.parametrize(
    ("given", "shown"), [("0.37", 0.37), ("1.0000000000000002", 1.0), ("37.0", None), ("1.5", None)]
)
def test_more_than_the_whole_pool_is_no_share_of_it(given, shown):
    scrape = parse_scrape(f'vllm:kv_cache_usage_perc{{engine="0"}} {given}\n', at=1.0)
    assert kv(scrape).used_fraction == shown


def test_servers_behind_one_address_are_engines_by_the_label_that_tells_them_apart():
    text = "".join(
        f'vllm:num_requests_running{{engine="0",model_name="m",pod="{pod}"}} {running}\n'
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="m",pod="{pod}"}} 0.5\n'
        f'vllm:cache_config_info{{engine="0",pod="{pod}",kv_cache_size_tokens="1000"}} 1\n'
        for pod, running in (("a", 1), ("b", 2))
    )
    scrape = parse_scrape(text, at=1.0)
    pool = kv(scrape)
    assert list(scrape.engines) == ["0 a", "0 b"]
    assert (scrape.gauge("running"), pool.capacity_tokens, pool.used_fraction) == (3, 2000, 0.5)


def test_a_figure_that_one_engine_does_not_give_is_no_sum_of_the_others():
    text = "".join(
        f'vllm:num_requests_running{{engine="{engine}"}} 1\n'
        f'vllm:num_requests_waiting{{engine="{engine}"}} {waiting}\n'
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {waiting}\n'
        for engine, waiting in (("0", "0.5"), ("1", "NaN"))
    )
    scrape = parse_scrape(text, at=1.0)
    assert (scrape.gauge("running"), scrape.gauge("waiting"), kv(scrape).used_fraction) == (2, None, None)


@pytest.mark.parametrize(
    ("states", "sleeps"),
    [("100", "awake"), ("010", "weights_offloaded"), ("001", "discard_all"), ("000", "paused")],
)
def test_every_depth_of_sleep_is_told(states, sleeps):
    names = ("awake", "weights_offloaded", "discard_all")
    lines = [
        f'vllm:engine_sleep_state{{engine="0",sleep_state="{name}"}} {value}.0\n'
        for name, value in zip(names, states, strict=True)
    ]
    for text in ("".join(lines), "".join(reversed(lines))):
        assert parse_scrape(text, at=1.0).engines["0"].sleep_state == sleeps


@pytest.mark.parametrize(
    ("line", "server"),
    [
        ("sglang:num_running_reqs 1\n", "SGLang"),
        ("llamacpp:requests_processing 1\n", "llama.cpp"),
        ("tgi_request_count 4\n", "text-generation-inference"),
        ("python_info 1\n", None),
        ('# HELP sglang:x y\nvllm:num_requests_running{engine="0"} 1\nsglang:x 1\n', None),
    ],
)
def test_another_server_is_known_by_the_names_of_its_figures(line, server):
    assert parse_scrape(line, at=1.0).other_server == server


def test_a_line_that_is_too_long_to_read_is_said():
    long = "x" * 5000
    text = f'vllm:num_requests_running{{model_name="{long}"}} 1\nvllm:num_requests_waiting 2\nother{{a="{long}"}} 1\n'
    scrape = parse_scrape(text, at=1.0)
    assert (scrape.skipped_lines, scrape.gauge("waiting")) == (1, 2)


def test_absurdly_long_lines_and_endless_samples_are_bounded():
    long_line = 'vllm:num_requests_running{engine="' + "x" * 100_000 + '"} 1\n'
    many = "".join(f'vllm:num_requests_running{{engine="{i}"}} 1\n' for i in range(vllm.MAX_SAMPLES + 50))
    scrape = parse_scrape(long_line + many, at=1.0)
    assert scrape.gauge("running") == vllm.MAX_SAMPLES - 1


def test_a_capacity_that_one_engine_does_not_say_is_no_capacity():
    text = (
        'vllm:cache_config_info{engine="0",kv_cache_size_tokens="1000"} 1\n'
        'vllm:cache_config_info{engine="1",kv_cache_size_tokens="None"} 1\n'
    )
    scrape = parse_scrape(text, at=1.0)
    assert kv(scrape).capacity_tokens is None
    assert kv(scrape, LogPool(capacity_tokens=2000)).capacity_tokens == 4000


_VALUE = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=8)
_PAIRS = st.dictionaries(st.sampled_from(["engine", "le", "a1_", "_b"]), _VALUE, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["a", "vllm:x_total", "_:9"]), _PAIRS, st.sampled_from(["", ","]), st.sampled_from(["", " "]))
def test_a_series_means_what_the_prometheus_library_says(name, labels, comma, blank):
    inside = f",{blank}".join(f'{key}{blank}={blank}"{_escaped(value)}"' for key, value in labels.items())
    text = f"{name}{blank}{{{inside}{comma if labels else ''}}}{blank}"
    assert parse_series(text) == (name, labels)
    assert _by_library(text) == (name, labels)


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet='a_:1{}=," \\n#é', max_size=16))
def test_whatever_is_read_as_a_series_the_prometheus_library_reads_alike(text):
    found = parse_series(text)
    assert found is None or _by_library(text) == found


def _escaped(value):
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _by_library(text):
    try:
        samples = [sample for family in text_string_to_metric_families(f"{text} 0\n") for sample in family.samples]
    except (ValueError, IndexError, KeyError):
        return None
    return (samples[0].name, samples[0].labels) if samples else None


_NAMES = sorted(vllm._WANTED)
_LABELS = st.sampled_from(["engine", "le", "source", "kv_cache_size_tokens", "sleep_state", "1bad", "__name__", ""])
_VALUES = st.sampled_from(["0", "1", "NaN", "1e999", "9" * 400, "-3", "", "0x1", "1_0", "٣"]) | st.text(max_size=6)
_NOISE = st.text(alphabet='{}=," \\\n#aé\u2028\x00_0.+-', max_size=12)
_LINES = st.builds(
    lambda name, label, value, number, noise: f'{name}{{{label}="{value}"}} {number}{noise}',
    st.sampled_from(_NAMES),
    _LABELS,
    _VALUES,
    _VALUES,
    _NOISE,
) | st.builds(lambda name, noise: name + noise, st.sampled_from(_NAMES), _NOISE | st.text(max_size=20))


@settings(max_examples=300, deadline=None)
@given(st.lists(_LINES, max_size=12), st.lists(_LINES, max_size=12))
def test_no_text_raises_and_no_text_gives_a_negative_rate(first, second):
    window = Window()
    for clock, lines in ((1.0, first), (2.0, second)):
        window = extend(window, parse_scrape("\n".join(lines) + "\n", at=clock), 10)
        shown = figures(window, 10)
    rates = (
        shown.throughput.prefill_tokens_per_second,
        shown.throughput.cached_prefill_tokens_per_second,
        shown.throughput.decode_tokens_per_second,
        shown.throughput.prefill_tokens_per_second_per_request,
        shown.requests.preemptions_per_second,
        shown.latency.ttft_seconds.mean,
        shown.latency.ttft_seconds.p95,
    )
    assert all(rate is None or rate >= 0 for rate in rates)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_at_all_is_a_scrape(text):
    assert parse_scrape(text, at=1.0).at == 1.0
