"""Boot logs of real servers, read as they would grow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.diagnose.reader import TroubleReader
from cockpit.supervisor.logfile import Tail

LOGS = Path(__file__).parents[2] / "fixtures" / "boot-logs"


def at(stamp: str) -> float:
    return time.mktime(time.strptime(f"2026-11-29 {stamp}", "%Y-%m-%d %H:%M:%S"))


def read(name: str, spawned: str | None = None, lines_a_call: int = 10_000, later: float = 3600.0) -> BootState:
    """The state after the whole log, read ``later`` seconds after its spawn."""
    lines = Tail(LOGS / name).read()
    start = None if spawned is None else at(spawned)
    log = BootLog(start)
    now = (at("23:00:00") if start is None else start) + later
    for first in range(0, len(lines), lines_a_call):
        log.feed(lines[first : first + lines_a_call], now)
    return log.snapshot()


def seconds_of(state: BootState) -> dict[str, float | None]:
    return {stage.id: stage.seconds for stage in state.stages}


def test_a_graph_boot_on_a_gpu_gives_every_stage_with_the_logs_own_times() -> None:
    state = read("h200-0.26-ct4-graph.log", spawned="20:54:50")
    assert state.ready and state.current is None
    assert seconds_of(state) == {
        "environment": 12.0,
        "config": 28.0,
        "weights": 4.0,
        "compile": 37.0,
        "kv_pool": 3.0,
        "graphs": 2.0,
        "ready": 9.0,
    }
    assert {stage.id: stage.progress for stage in state.stages} == {
        "environment": "vLLM 0.26.0",
        "config": "Qwen3ForCausalLM",
        "weights": "5.68 GiB",
        "compile": "",
        "kv_pool": "884,160 tokens",
        "graphs": "0.04 GiB",
        "ready": "",
    }
    facts = state.facts
    assert (facts.vllm_version, facts.weights_gib, facts.available_kv_gib) == ("0.26.0", 5.68, 121.42)
    assert (facts.capacity_tokens, facts.max_concurrency, facts.max_model_len) == (884_160, 53.96, 16_384)
    assert facts.kernels == {"CompressedTensorsWNA16": "MarlinLinearKernel"}
    assert (facts.attention_backend, facts.world_size) == ("FLASH_ATTN", 1)
    assert state.first_exception is None


def test_an_eager_boot_on_a_cpu_has_no_compile_and_no_graphs() -> None:
    state = read("cpu-0.32-tiny-eager-sigint.log", spawned="20:11:18")
    assert state.ready
    assert list(seconds_of(state)) == ["environment", "config", "weights", "kv_pool", "ready"]
    assert sum(filter(None, seconds_of(state).values())) == 27.0
    assert (state.facts.capacity_tokens, state.facts.max_concurrency) == (2_097_152, 1024.0)
    assert (state.facts.weights_gib, state.facts.available_kv_gib) == (None, 1.0)
    assert next(stage for stage in state.stages if stage.id == "weights").progress == "shards 1/1"


def test_a_healthy_boot_with_tracebacks_as_warnings_is_ready_and_has_no_exception() -> None:
    text = (LOGS / "h200-0.26-q38-ct6-mtp3-seed.log").read_text(encoding="utf-8")
    assert text.count("NotImplementedError") >= 2
    state = read("h200-0.26-q38-ct6-mtp3-seed.log")
    assert state.ready and state.first_exception is None
    assert (state.facts.weights_gib, state.facts.capacity_tokens) == (23.24, 659_215)
    assert (state.facts.max_concurrency, state.facts.max_model_len) == (2.51, 262_144)
    assert state.facts.architecture == "Qwen3_5ForConditionalGeneration"  # not its draft model
    assert state.facts.kernels == {"CompressedTensorsWNA16": "HummingLinearKernel", "GDN prefill": "FlashInfer"}


def test_a_death_for_want_of_memory_names_the_cause_and_not_the_wrapper() -> None:
    state = read("h200-0.26-nokv.log")
    assert not state.ready and state.current == "kv_pool"
    assert state.stages[-1].ended is None and state.stages[-1].progress == "1.90 GiB"
    assert state.facts.weights_gib == 50.22 and state.facts.capacity_tokens is None
    assert state.first_exception is not None
    assert state.first_exception.startswith("ValueError: To serve at least one request")
    assert "28224" in state.first_exception


def test_a_refused_configuration_gives_the_reason_from_the_line_after_the_exception() -> None:
    state = read("h200-0.26-tp2.log")
    assert state.current == "config" and state.first_exception is not None
    assert "World size (2) is larger than the number of available GPUs (1)" in state.first_exception


@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.glob("*.log")))
def test_a_log_gives_the_same_figures_however_it_is_cut(name: str) -> None:
    whole = read(name, spawned="20:00:00")
    for lines_a_call in (1, 7):
        cut = read(name, spawned="20:00:00", lines_a_call=lines_a_call)
        assert cut.facts == whole.facts
        assert [stage.id for stage in cut.stages] == [stage.id for stage in whole.stages]
        assert cut.first_exception == whole.first_exception


def test_a_line_without_a_time_of_its_own_is_taken_when_it_is_seen() -> None:
    log = BootLog(at("20:00:00"))
    log.feed(
        ["(APIServer pid=1) INFO 11-29 20:00:05 [a.py:1] Starting vLLM server on http://127.0.0.1:1"], at("20:00:05")
    )
    log.feed(["INFO:     Application startup complete."], at("20:00:07"))
    assert log.snapshot().stages[-1].ended == 7.0


def test_times_of_another_time_zone_or_from_before_the_spawn_are_not_believed() -> None:
    for stamp in ("11-29 22:00:03", "11-29 18:00:03", "02-31 25:00:00"):
        log = BootLog(at("20:00:00"))
        log.feed([f"INFO {stamp} [a.py:1] vLLM server version 0.33.0, serving model x"], at("20:00:04"))
        assert log.snapshot().stages[0].ended == 4.0
        assert log.snapshot().facts.vllm_version == "0.33.0"


def test_a_boot_over_new_year_keeps_its_times() -> None:
    spawned = time.mktime((2026, 12, 31, 23, 59, 50, 0, 0, -1))
    log = BootLog(spawned)
    log.feed(["INFO 12-31 23:59:58 [a.py:1] version 0.33.0"], spawned + 20)
    log.feed(["INFO 01-01 00:00:05 [a.py:1] Starting to load model x..."], spawned + 20)
    assert [stage.ended for stage in log.snapshot().stages] == [8.0, 15.0, None]


def test_a_progress_bar_counts_before_its_line_ends_and_a_half_written_figure_does_not() -> None:
    log = BootLog(0.0)
    log.feed(["Starting to load model x..."], 1.0)
    log.feed_unfinished("Loading safetensors checkpoint shards:  33% Completed | 3/9 [00:10<00:20,  3.4s/it]", 2.0)
    assert log.snapshot().stages[-1].progress == "shards 3/9"
    log.feed_unfinished("(EngineCore pid=3) INFO 11-29 20:00:00 [x.py:1] Available KV cache memory: 12", 3.0)
    assert log.snapshot().facts.available_kv_gib is None
    log.feed(["Available KV cache memory: 12.5 GiB", "GPU KV cache size: 1,000 tokens"], 4.0)
    log.feed_unfinished(
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|██  | 2/5 [00:00<00:00, 9it/s]", 5.0
    )
    state = log.snapshot()
    assert state.current == "graphs" and state.stages[-1].progress.endswith("2/5")


def test_ranks_agree_on_the_largest_weights_and_the_smallest_pool() -> None:
    log = BootLog(0.0)
    log.feed(
        [
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] world_size=2 rank=0 local_rank=0 x",
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] Starting to load model x...",
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] Model loading took 8.9 GiB memory and 3.1 seconds",
            "(Worker_TP1 pid=2) INFO 11-29 20:00:00 [p.py:1] Model loading took 9.1 GiB memory and 3.4 seconds",
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] [backbone] Dynamo bytecode transform time: 4.00 s",
            "(Worker_TP1 pid=2) INFO 11-29 20:00:00 [p.py:1] Loading weights took 5.00 seconds",
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] Directly load the compiled graph(s) for compile range x",
        ],
        9.0,
    )
    assert log.snapshot().current == "compile"  # a late rank does not end it
    log.feed(
        [
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] torch.compile took 4.00 s in total",
            "(Worker_TP0 pid=1) INFO 11-29 20:00:00 [p.py:1] Available KV cache memory: 8.97 GiB",
            "(Worker_TP1 pid=2) INFO 11-29 20:00:00 [p.py:1] Available KV cache memory: 8.92 GiB",
            "(EngineCore pid=3) INFO 11-29 20:00:00 [p.py:1] Auto-fit max_model_len: reduced from 262144 to 131072",
        ],
        10.0,
    )
    facts = log.snapshot().facts
    assert (facts.weights_gib, facts.available_kv_gib, facts.world_size) == (9.1, 8.92, 2)
    assert facts.max_model_len == 131_072
    assert [stage.id for stage in log.snapshot().stages][-2:] == ["compile", "kv_pool"]
    assert log.snapshot().stages[-2].progress == "from the cache"


def test_the_cpu_build_names_its_compilation_otherwise() -> None:
    log = BootLog(0.0)
    log.feed(["Starting to load model x..."], 1.0)
    log.feed(["Warming up model for the compilation..."], 3.0)
    assert log.snapshot().current == "compile"
    log.feed(["Warming up done."], 63.0)
    log.feed(["CPU KV cache size: 2,048 tokens, Maximum concurrency for 2,048 tokens per request: 1.00x"], 64.0)
    assert seconds_of(log.snapshot()) == {"environment": 1.0, "weights": 2.0, "compile": 60.0, "kv_pool": 1.0}


def test_the_workers_exception_wins_over_the_engines_whatever_comes_first() -> None:
    log = BootLog(0.0)
    log.feed(
        [
            "(EngineCore pid=3) ERROR 11-29 20:00:00 [core.py:1] EngineCore failed to start.",
            "(EngineCore pid=3) ERROR 11-29 20:00:00 [core.py:1] RuntimeError: Worker failed with error 'x'",
            "(Worker_TP1 pid=2) ERROR 11-29 20:00:00 [m.py:1] torch.OutOfMemoryError: CUDA out of memory.",
            "(Worker_TP1 pid=2) ERROR 11-29 20:00:00 [m.py:1] RuntimeError: a later one",
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        ],
        1.0,
    )
    assert log.snapshot().first_exception == "torch.OutOfMemoryError: CUDA out of memory."


def test_wrong_arguments_are_found_although_they_are_no_exception() -> None:
    log = BootLog(0.0)
    log.feed(["usage: vllm serve [-h]", "vllm serve: error: unrecognized arguments: --x"], 1.0)
    assert log.snapshot().first_exception == "vllm serve: error: unrecognized arguments: --x"


def test_two_hundred_thousand_lines_cost_ten_times_as_much_as_twenty_thousand() -> None:
    line = '(EngineCore pid=55) WARNING 11-29 20:53:33 [gdn.py:1085]   File "/opt/x.py", line 12, in step {}'
    lines = [line.format(number) for number in range(200_000)]

    def cost(count: int) -> float:
        log = BootLog(0.0)
        began = time.process_time()
        log.feed(lines[:count], 1.0)
        return time.process_time() - began

    cost(1000)
    few, many = min(cost(20_000) for _ in range(3)), cost(200_000)
    print(f"{many / 200_000 * 1e6:.1f} µs a line")
    assert many < 30 * few


@given(st.lists(st.text(max_size=200)), st.floats(0, 2e9))
def test_any_text_is_read_without_an_error(lines: list[str], now: float) -> None:
    log = BootLog(None)
    log.feed(lines, now)
    for line in lines:
        log.feed_unfinished(line, now)
    assert log.snapshot().stages[0].id == "environment"


PIECES = [
    *("(Worker pid=1) ", "INFO 02-29 10:00:00 [x.py:1] ", "GPU KV cache size: ", "9,,9", " tokens", "version 9"),
    *("Model loading took ", "1.5", " GiB", "Capturing CUDA graphs | 1/2 [", "Error: ", "²", "x", "1.x"),
    *("ValueError: validation error", "  Value error, ", "Maximum concurrency for 1 tokens per request: "),
    *("Application startup complete", "Warming up done", "torch.compile took", "Dynamo ", "init engine"),
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=20))
def test_any_mixture_of_known_pieces_is_read_without_an_error(lines: list[str]) -> None:
    log = BootLog(0.0)
    log.feed(lines, 1.8e9)
    ends = [stage.ended for stage in log.snapshot().stages[:-1]]
    assert None not in ends


ENGINE_LINE = (
    "(EngineCore pid=3) INFO 11-29 20:00:00 [core.py:116] Initializing a V1 LLM engine (v0.33.0) with config: "
    "model='m', enforce_eager={eager}, compilation_config={{'mode': <CompilationMode.{mode}: 3>}}"
)


@pytest.mark.parametrize(
    ("eager", "mode", "stage"),
    [("False", "VLLM_COMPILE", "compile"), ("True", "VLLM_COMPILE", "kv_pool"), ("False", "NONE", "kv_pool")],
)
def test_what_follows_the_weights_is_known_from_the_engines_settings(eager: str, mode: str, stage: str) -> None:
    log = BootLog(0.0)
    log.feed([ENGINE_LINE.format(eager=eager, mode=mode)], 1.0)
    log.feed(["Starting to load model x...", "Model loading took 9.1 GiB memory and 3.1 seconds"], 5.0)
    assert log.snapshot().current == stage


def test_a_compilation_that_was_expected_and_did_not_come_is_no_stage() -> None:
    log = BootLog(0.0)
    log.feed([ENGINE_LINE.format(eager="False", mode="VLLM_COMPILE"), "Starting to load model x..."], 1.0)
    log.feed(["Model loading took 9.1 GiB memory and 3.1 seconds"], 5.0)
    log.feed(["(Worker_TP1 pid=2) INFO 11-29 20:00:00 [p.py:1] Model loading took 9.3 GiB and 4.1 seconds"], 6.0)
    log.feed(["Available KV cache memory: 8.97 GiB", "GPU KV cache size: 1,000 tokens"], 9.0)
    assert [stage.id for stage in log.snapshot().stages][-2:] == ["weights", "kv_pool"]
    assert seconds_of(log.snapshot())["kv_pool"] is not None


def test_after_the_graphs_it_warms_up_until_it_answers() -> None:
    log = BootLog(0.0)
    log.feed(["Starting to load model x...", "Model loading took 9.1 GiB memory and 3.1 seconds"], 5.0)
    log.feed(["GPU KV cache size: 1,000 tokens"], 9.0)
    log.feed(["Graph capturing finished in 4 secs, took 1.03 GiB"], 13.0)
    assert log.snapshot().current == "ready", "a boot on an H200 was silent for 100 s here"
    log.feed(["Graph capturing finished in 5 secs, took 1.04 GiB"], 14.0)
    log.feed(["INFO:     Application startup complete."], 20.0)
    assert (seconds_of(log.snapshot())["graphs"], seconds_of(log.snapshot())["ready"]) == (5.0, 6.0)


def test_the_checkpoints_size_stands_beside_its_shards() -> None:
    log = BootLog(0.0)
    log.feed(
        [
            "(Worker pid=2) INFO 11-29 20:00:00 [w.py:1108] Filesystem type for checkpoints: EXT4. "
            "Checkpoint size: 17.69 GiB. Available RAM: 19.42 GiB.",
            "Loading safetensors checkpoint shards:  33% Completed | 3/9 [00:10<00:20,  3.4s/it]",
        ],
        1.0,
    )
    assert log.snapshot().stages[-1].progress == "shards 3/9 of 17.69 GiB"


@pytest.mark.parametrize(
    "carrier",
    [
        "",
        "vllm-1  | ",
        "2026-11-29T20:11:27.123456789Z ",
        "2026-11-29T20:11:27.123456789Z stdout F ",
        "Nov 29 20:11:27 rack3 vllm[2509]: ",
    ],
)
@pytest.mark.parametrize("process", ["", "(EngineCore_DP0 pid=3) ", "(VllmWorker rank=0 pid=7) "])
def test_lines_are_known_behind_what_collects_them(carrier: str, process: str) -> None:
    log = BootLog(0.0)
    log.feed([f"{carrier}{process}INFO 11-29 20:00:00 [gpu_worker.py:560] Available KV cache memory: 8.97 GiB"], 1.0)
    assert log.snapshot().facts.available_kv_gib == 8.97


def test_a_server_that_logs_little_is_past_its_imports_once_its_engine_runs() -> None:
    quiet = BootLog(at("20:00:00"))
    quiet.engine_began(at("20:00:09"))
    assert quiet.snapshot().current == "config"
    assert quiet.snapshot().stages[0].ended == 9.0
    quiet.feed(["Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]"], at("20:00:12"))
    quiet.engine_began(at("20:00:09"))
    assert quiet.snapshot().current == "weights"


@pytest.mark.parametrize(
    ("bar", "progress"),
    [
        ("Loading safetensors checkpoint shards:  33% Completed | 3/9 [00:10<00:20,  3.4s/it]", "shards 3/9"),
        ("Loading pt checkpoint shards:  50% Completed | 1/2 [00:10<00:20,  3.4s/it]", "shards 1/2"),
        ("Loading np_cache checkpoint shards:  50% Completed | 1/2 [00:10<00:20,  3.4s/it]", "shards 1/2"),
        ("Multi-thread loading shards:  75% Completed | 3/4 [00:01<00:00,  3.0it/s]", "shards 3/4"),
        ("Multi-thread loading pt checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]", "shards 0/4"),
        ("Loading safetensors using Fastsafetensor loader:  20% Completed | 1/5 [00:01<00:04]", "shards 1/5"),
        ("Loading safetensors using Runai Model Streamer:  30% Completed | 120/399 [00:01<00:04]", "tensors 120/399"),
        ("Loading safetensors using InstantTensor loader:  30% Completed | 120/399 [00:01<00:04]", "tensors 120/399"),
    ],
)
def test_every_loaders_bar_is_progress_of_the_weights(bar: str, progress: str) -> None:
    for feed in ("whole", "unfinished"):
        log = BootLog(0.0)
        if feed == "whole":
            log.feed([bar], 1.0)
        else:
            log.feed_unfinished(bar, 1.0)
        assert (log.snapshot().current, log.snapshot().stages[-1].progress) == ("weights", progress)


@pytest.mark.parametrize(
    "what", ["CUDA graphs", "prefill CUDA graphs", "eagle decode CUDA graphs", "dflash CUDA graphs"]
)
def test_the_graphs_of_a_draft_are_progress_as_well(what: str) -> None:
    log = BootLog(0.0)
    log.feed(["Starting to load model x...", "GPU KV cache size: 1,000 tokens"], 1.0)
    log.feed_unfinished(f"(EngineCore pid=3) Capturing {what} (FULL):  40%|██  | 2/5 [00:00<00:00, 9it/s]", 2.0)
    assert log.snapshot().current == "graphs" and log.snapshot().stages[-1].progress == "(FULL) 2/5"


def test_a_download_shows_in_the_stage_that_waits_for_it() -> None:
    log = BootLog(0.0)
    log.feed(["Starting to load model x..."], 1.0)
    log.feed_unfinished("Fetching 9 files:  33%|███▎      | 3/9 [00:10<00:20,  3.4s/it]", 2.0)
    assert log.snapshot().stages[-1].progress == "downloading files 3/9"


def test_incidents_are_weighed_once_while_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[BootState] = []
    first = TroubleReader.first_exception
    monkeypatch.setattr(
        TroubleReader, "first_exception", lambda self, boot: weighed.append(boot) or first(self, boot)
    )
    log = BootLog(0.0)
    log.feed(["Traceback (most recent call last):", "ValueError: no such thing"], 1.0)
    assert log.snapshot() == log.snapshot() and len(weighed) == 1
    assert log.snapshot().first_exception == "ValueError: no such thing"
    log.engine_began(2.0)
    assert log.snapshot().current == "config" and len(weighed) == 2
    log.feed(["Traceback (most recent call last):", "OSError: another"], 3.0)
    log.snapshot()
    assert len(weighed) == 3
