"""How a log is read: real ones as they are, whatever lies around their lines, and any text at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cockpit.errors import CockpitError
from cockpit.supervisor.diagnose.files import diagnose_file, diagnose_lines
from cockpit.supervisor.diagnose.matcher import is_remarkable
from cockpit.supervisor.diagnose.types import Diagnosis, End
from cockpit.supervisor.logfile import clean

LOGS = Path(__file__).parents[3] / "fixtures" / "boot-logs"
DEATHS = {
    "cpu-0.32-badarch.log": "arch-unsupported",
    "cpu-0.32-nokv.log": "kv-max-len",
    "cpu-0.32-nodir.log": "model-not-found",
    "cpu-0.32-offline.log": "hub-offline",
    "cpu-0.32-port.log": "port-in-use",
    "h200-0.26-nokv.log": "kv-max-len",
    "h200-0.26-tp2.log": "too-few-gpus",
}
HEALTHY = sorted(path.name for path in LOGS.glob("*.log") if path.name not in DEATHS)
READY = [
    "(APIServer pid=1) INFO 11-29 20:00:00 [entry.py:1] vLLM server version 0.32.0",
    "INFO:     Application startup complete.",
]


def lines_of(name: str) -> list[str]:
    return [clean(line, 8000) for line in (LOGS / name).read_text(encoding="utf-8").split("\n")]


def verdict(diagnosis: Diagnosis) -> tuple[object, ...]:
    return (
        diagnosis.healthy,
        diagnosis.ready,
        diagnosis.symptom,
        diagnosis.first_exception,
        diagnosis.place,
        diagnosis.explanation,
        diagnosis.fixes,
        diagnosis.boot.facts,
    )


def of(text: str, end: End | None = None) -> Diagnosis:
    return diagnose_lines([clean(line, 8000) for line in text.split("\n")], end)


@pytest.mark.parametrize("name", list(DEATHS))
def test_a_real_death_is_named(name: str) -> None:
    diagnosis = diagnose_file(str(LOGS / name))
    assert (diagnosis.symptom, diagnosis.healthy, diagnosis.ready) == (DEATHS[name], False, False)
    assert diagnosis.first_exception and diagnosis.place and diagnosis.fixes


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_server_has_no_symptom(name: str) -> None:
    diagnosis = diagnose_file(str(LOGS / name))
    assert diagnosis.healthy and diagnosis.ready
    assert (diagnosis.symptom, diagnosis.first_exception, diagnosis.explanation, diagnosis.fixes) == (
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_a_boot_that_is_cut_off_is_neither_ready_nor_dead(name: str, part: float) -> None:
    lines = lines_of(name)
    ready = next(index for index, line in enumerate(lines) if "Application startup complete" in line)
    diagnosis = diagnose_lines(lines[: int(ready * part)])
    assert (diagnosis.healthy, diagnosis.ready, diagnosis.symptom, diagnosis.first_exception) == (
        False,
        False,
        None,
        None,
    )


@pytest.mark.parametrize(
    "prefix",
    [
        "vllm-1  | ",
        "2026-11-29T20:01:44.123456789Z ",
        "2026-11-29T20:01:44.123456789Z stderr F ",
        "vllm-1  | 2026-11-29T20:01:44.123456789Z ",
        "[pod/vllm-7d9f/vllm] ",
        "Nov 29 20:01:44 host vllm[4711]: ",
        "> ",
        "\x1b[0;36m",
        "\\x1b[1;36m",
    ],
)
@pytest.mark.parametrize("name", [*DEATHS, "h200-0.26-ct4-graph.log"])
def test_what_kept_the_log_makes_no_difference(name: str, prefix: str) -> None:
    plain = lines_of(name)
    wrapped = [clean(prefix + line, 8000) for line in plain]
    assert verdict(diagnose_lines(wrapped)) == verdict(diagnose_lines(plain))


def test_what_clients_ask_for_says_nothing_of_the_server() -> None:
    asked = '(APIServer pid=1) INFO:     10.0.0.7:5 - "GET /{} HTTP/1.1" {}'
    plain = [line for line in lines_of("h200-0.26-ct4-graph.log") if "hutting down" not in line]
    answered = [asked.format("ChatTemplateResolutionError", "200 OK"), asked.format("GB10", "307 Temporary Redirect")]
    assert diagnose_lines([*plain, *answered]).notes == diagnose_lines(plain).notes
    failed = asked.format("ChatTemplateResolutionError", "400 Bad Request")
    assert len(diagnose_lines([*plain, failed]).notes) == len(diagnose_lines(plain).notes) + 1


NOISE = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.text(alphabet="abcdefghij klmnopq 0123456789./:-_|%#()[]", max_size=60).filter(
            lambda text: not is_remarkable(text)
        ),
    ),
    max_size=20,
)


@pytest.mark.parametrize("name", list(DEATHS))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(noise=NOISE)
def test_noise_between_the_lines_changes_nothing(name: str, noise: list[tuple[int, str]]) -> None:
    # Words such as oom-kill are no noise: alone they say why.
    assume(all(diagnose_lines([text]).symptom is None for _, text in noise))
    lines = lines_of(name)
    expected = diagnose_lines(lines).symptom
    for place, text in noise:
        lines.insert(place % (len(lines) + 1), text)
    assert diagnose_lines(lines).symptom == expected


@settings(deadline=None)
@given(st.text(max_size=2000))
def test_any_text_is_read_and_none_is_healthy_without_a_ready_line(text: str) -> None:
    diagnosis = of(text)
    assert not diagnosis.healthy or "Application startup complete" in text


@settings(deadline=None)
@given(st.binary(max_size=3000))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("log") / "any.log"
    file.write_bytes(data)
    try:
        assert not diagnose_file(str(file)).healthy or b"startup complete" in data
    except CockpitError as error:
        assert error.exit_code == 2


def test_of_a_restart_loop_the_last_boot_counts() -> None:
    lines = [*lines_of("h200-0.26-nokv.log"), *lines_of("h200-0.26-ct4-graph.log")]
    assert diagnose_lines(lines).healthy
    assert diagnose_lines([*lines, *lines_of("h200-0.26-tp2.log")]).symptom == "too-few-gpus"


def test_the_arithmetic_is_the_logs_own() -> None:
    text = """(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:286] non-default args: {'model': 'a/b', 'gpu_memory_utilization': 0.95}
INFO [gpu_model_runner.py:5347] Model loading took 21.30 GiB memory and 12.0 seconds
ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."""  # noqa: E501 - a log
    diagnosis = of(text)
    assert diagnosis.explanation is not None
    assert "21.3 GiB" in diagnosis.explanation and "0.95 already" in diagnosis.explanation
    assert all("gpu_memory_utilization" not in fix.set for fix in diagnosis.fixes)


def test_two_hundred_thousand_lines_are_read_in_bounded_memory() -> None:
    import tracemalloc

    lines = lines_of("h200-0.26-nokv.log")
    tracemalloc.start()
    diagnosis = diagnose_lines(line for _ in range(8) for line in lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert diagnosis.symptom == "kv-max-len" and peak < 4 << 20


NUMBERS = ["inf", "nan", "-inf", "1e400", "9" * 400, "1.2.3", "...", "0", "-1"]
OF_NUMBERS = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {0} GiB. GPU 0 has a total capacity of {0} GiB of "
    "which {0} MiB is free. Including non-PyTorch memory, this process has {0} GiB memory in use.",
    "ValueError: To serve at least one request with the models's max seq len ({0}), {0} GiB KV cache is needed, "
    "which is larger than the available KV cache memory ({0} GiB). Based on the available memory, the estimated "
    "maximum model length is {0}.",
    "ValueError: Free memory on device ({0}/{0} GiB) on startup is less than desired GPU memory utilization ({0}, "
    "{0} GiB).",
    "RuntimeError: CUDA out of memory occurred when warming up sampler with {0} dummy requests. Please try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
    "ValueError: max_num_batched_tokens ({0}) must be greater than or equal to max_num_seqs ({0}).",
    "OSError: [Errno 98] Address already in use",
    "INFO 11-29 20:00:00 [loggers.py:1] Engine 000: Avg generation throughput: {0} tokens/s",
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:9])
@pytest.mark.parametrize("text", OF_NUMBERS, ids=lambda text: text[:24])
def test_what_is_no_number_of_a_server_is_none_and_ends_nothing(text: str, number: str) -> None:
    names = ("tensor_parallel_size", "max_num_seqs", "max_model_len", "gpu_memory_utilization", "port")
    flags = ", ".join(f"'{name}': {number}" for name in names)
    for head in (f"INFO 11-29 20:00:00 [utils.py:1] non-default args: {{{flags}}}", READY[0]):
        found = diagnose_lines([head, text.format(number)])
        said = " ".join([found.explanation or "", *(fix.text for fix in found.fixes)])
        assert "inf " not in said and "nan" not in said


@pytest.mark.parametrize(
    "line",
    [
        lambda length: ("Error_" * 1400)[:length] + "!",
        lambda length: "-" * length + " is required for a normal functioning of this module, but found 1",
    ],
    ids=["exceptions", "packages"],
)
def test_a_line_made_to_be_slow_takes_four_times_as_long_when_it_is_four_times_as_long(
    line: Callable[[int], str],
) -> None:
    def cost(text: str) -> float:
        """Of a processor, which others may be using too: the least of some looks."""
        looks = []
        for _ in range(5):
            began = time.process_time()
            diagnose_lines([text] * 3)
            looks.append(time.process_time() - began)
        return min(looks)

    cost(line(1000))
    assert cost(line(7900)) < 10 * cost(line(1975)), "not sixteen times"
