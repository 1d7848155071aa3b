"""What a frame says about its figures."""

from __future__ import annotations

import pytest
from truth_modes import MODES
from truth_pages import PAGES

from cockpit.telemetry import notes
from cockpit.telemetry.figures import figures
from cockpit.telemetry.pool import LogPool
from cockpit.telemetry.sources import sources_of
from cockpit.telemetry.vllm import parse_scrape
from cockpit.telemetry.window import Window, extend


class Watching:
    """A window over a server, a scrape a second."""

    def __init__(self, server, clock, **options):
        self.server, self.clock, self.options = server, clock, options
        self.window = Window()

    def look(self, seconds=1):
        for _ in range(seconds):
            scrape = parse_scrape(self.server.text().decode(), at=self.clock(), clock=self.clock())
            self.window = extend(self.window, scrape, 10.0)
            self.clock.pass_seconds(1.0)
        return figures(self.window, 10.0, **self.options)


@pytest.fixture
def watching(truth, clock):
    return lambda mode, **options: Watching(truth(mode), clock, **options)


def test_a_lost_engine_is_named_and_the_other_ones_rates_go_on(watching):
    one = watching("dp2")
    assert notes.ENGINES.format(2) in one.look(5).notes
    one.server.engines = 1
    lost = one.look()
    assert notes.LOST.format("1") in lost.notes
    assert lost.throughput.decode_tokens_per_second == pytest.approx(90, rel=0.02)
    later = one.look(20)
    assert notes.LOST.format("1") in later.notes
    assert later.throughput.decode_tokens_per_second == pytest.approx(90, rel=0.02)
    assert later.kv.capacity_tokens == 100_000
    one.server.engines = None
    back = one.look()
    assert [note for note in back.notes if note.startswith("Engine ")] == [notes.CAME.format("1")]
    assert back.throughput.decode_tokens_per_second is None
    assert one.look().throughput.decode_tokens_per_second == pytest.approx(120, rel=0.02)
    assert not any(note.startswith("Engine ") for note in one.look(10).notes)
    one.server.engines = 1
    assert notes.LOST.format("1") in one.look().notes
    one.server.restart()
    assert [note for note in one.look().notes if note.startswith(("Engine ", "The server "))] == [notes.RESTARTED]


def test_servers_that_answer_by_turns_are_told_from_one_that_restarts(watching):
    one = watching("steady")
    for start in (10.0, 500.0, 900.0):
        one.server._process_started_at = start
        assert notes.BY_TURNS not in one.look().notes
    for start in (500.0, 10.0):
        one.server._process_started_at = start
        assert notes.BY_TURNS in one.look().notes
    one.server._process_started_at = 7_000.0
    assert notes.RESTARTED in one.look().notes


def test_a_server_that_embeds_generates_nothing_and_an_encoder_keeps_no_kv_cache(watching):
    assert notes.POOLING in watching("pooling").look(12).notes
    assert notes.POOLING not in watching("idle").look(12).notes
    assert notes.POOLING not in watching("steady").look(12).notes
    encoder = watching("pooling-encoder").look(12)
    assert notes.NO_POOL in encoder.notes
    assert (encoder.kv.used_fraction, encoder.kv.capacity_tokens) == (None, None)
    assert encoder.throughput.prefill_tokens_per_second == pytest.approx(2500, rel=0.02)


@pytest.mark.parametrize("mode", ["sliding-window", "encoder-decoder"])
def test_a_share_of_a_pool_that_layers_of_several_kinds_fill_is_no_number_of_tokens(watching, mode):
    shown = watching(mode).look(12)
    assert shown.kv.used_tokens is None
    assert shown.kv.used_fraction > 0
    assert notes.SHARED_POOL in shown.notes
    assert notes.SHARED_POOL not in watching("dp2").look(12).notes


def test_a_sleeping_engine_says_so(watching):
    assert notes.SLEEPING.format("weights offloaded") in watching("sleep").look(2).notes


def test_an_engine_that_runs_requests_and_moves_nothing_is_said_to_hang(watching):
    one = watching("stuck")
    assert not any("hang" in note for note in one.look(30).notes)
    assert notes.STUCK.format(30, "2 requests") in one.look().notes


def test_an_idle_one_does_not_hang(watching):
    assert watching("idle").look(60).notes == ()


def test_several_api_servers_are_said(watching):
    assert watching("api-servers").look(2).notes == (notes.API_SERVERS,)


def test_speculation_that_was_asked_for_and_is_not_there_is_said(watching):
    assert notes.NO_DRAFT not in watching("steady", expects_draft=True).look(3).notes
    assert notes.NO_DRAFT in watching("steady", expects_draft=True).look(12).notes
    assert notes.NO_DRAFT not in watching("steady").look(12).notes
    assert notes.NO_DRAFT not in watching("mtp", expects_draft=True).look(12).notes


def test_a_draft_that_nearly_always_misses_is_said(watching):
    assert notes.POOR_DRAFT.format(0.04) in watching("poor-draft").look(12).notes
    assert not any("draft" in note for note in watching("mtp").look(12).notes)


def test_prompts_that_take_longer_than_the_window_are_said(watching):
    assert notes.BEGAN_BEFORE in watching("overflow").look(12).notes


def test_lines_that_cannot_be_read_are_counted(watching):
    one = watching("steady")
    text = one.server.text().decode()
    broken = parse_scrape('vllm:num_requests_running{engine="0 \n' + text, at=1.0)
    shown = figures(extend(Window(), broken, 10.0), 10.0)
    assert notes.SKIPPED.format("1 line") in shown.notes


def test_the_pool_by_concurrency_replaces_a_token_figure_that_is_known_to_be_wrong(watching):
    # The log of a 35B hybrid on vLLM 0.20: 290,864 tokens and 33.04 requests of 32,768.
    log = LogPool(capacity_tokens=290_864, max_concurrency=33.04, max_model_len=32_768)
    shown = watching("v0.20", log=log).look(2)
    assert shown.kv.capacity_tokens == int(33.04 * 32_768)
    assert shown.kv.max_concurrency == 33.04
    assert notes.FROM_CONCURRENCY in shown.notes
    right = LogPool(capacity_tokens=1_082_655, max_concurrency=33.04, max_model_len=32_768)
    assert watching("v0.20", log=right).look(2).kv.capacity_source == "log"


def test_every_group_that_is_known_has_a_source_and_an_age(watching):
    for mode in sorted(name for name, mode in MODES.items() if mode.engines and name not in PAGES | {"nan": {}}):
        shown = watching(mode).look(12)
        sources = {one.figures: one for one in sources_of(shown, 0.5)}
        has_pool = all(one.capacity_tokens is not None for one in MODES[mode].engines)
        assert {"prefill", "decode", "requests"} <= sources.keys()
        assert ("KV use" in sources) is has_pool
        assert all(one.origin for one in sources.values())
        assert all(one.age_seconds == 0.5 for name, one in sources.items() if name != "KV capacity")
        assert ("KV capacity" in sources) == (shown.kv.capacity_tokens is not None)


def test_a_diffusion_model_has_no_speed_of_a_stream_and_says_what_the_time_per_token_is(truth, clock):
    window, server = Window(), truth("steady")
    for _ in range(3):
        steps = f'vllm:diffusion_num_denoising_steps_total{{engine="0",model_name="m"}} {40 * clock()}\n'
        text = server.text().decode() + steps
        window = extend(window, parse_scrape(text, at=clock(), clock=clock()), 10.0)
        clock.pass_seconds(1.0)
    shown = figures(window, 10.0)
    assert notes.DIFFUSION in shown.notes
    assert shown.throughput.decode_tokens_per_second_per_request is None
    assert shown.throughput.decode_tokens_per_second == pytest.approx(90, rel=0.02)


def test_two_models_under_one_engine_have_no_pool_and_requests_together(truth, clock):
    """As an exporter that puts pages together without a label of its own gives them."""
    window, server = Window(), truth("steady")
    for _ in range(3):
        text = server.text().decode()
        other = text.replace('model_name="m"', 'model_name="n"').replace('num_gpu_blocks="', 'num_gpu_blocks="1')
        window = extend(window, parse_scrape(text + other, at=clock(), clock=clock()), 10.0)
        clock.pass_seconds(1.0)
    shown = figures(window, 10.0)
    assert notes.MIXED in shown.notes and shown.model == "m, n"
    assert (shown.requests.running, shown.kv.capacity_tokens, shown.kv.used_fraction) == (4, None, None)
    assert shown.throughput.decode_tokens_per_second == pytest.approx(180, rel=0.02)
