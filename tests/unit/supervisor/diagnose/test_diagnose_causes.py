"""Which exception of a log is the cause, and what says that a server is well, was stopped or came to an end."""

from __future__ import annotations

import pytest

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.diagnose.types import Diagnosis, End
from cockpit.supervisor.logfile import clean

READY = [
    "(APIServer pid=1) INFO 11-29 20:00:00 [entry.py:1] vLLM server version 0.32.0",
    "INFO:     Application startup complete.",
]
ARGS = "(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:286] non-default args: {'model': 'a/b'}"
ENGINE = "(EngineCore pid=2) ERROR 06-02 10:02:00 [core.py:1510] "


def of(text: str, end: End | None = None) -> Diagnosis:
    return diagnose_lines([clean(line, 8000) for line in text.split("\n")], end)


def test_a_worker_comes_before_its_engine_and_the_engine_before_the_server() -> None:
    diagnosis = of(
        """(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:286] non-default args: {'model': 'a/b', 'tensor_parallel_size': 2}
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/x/vllm/v1/engine/utils.py", line 1272, in wait_for_engine_startup
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}
(EngineCore pid=2) ERROR 06-02 10:00:09 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=2) ERROR 06-02 10:00:09 [core.py:1510] Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
(Worker_TP1 pid=4) ERROR 06-02 10:00:08 [multiproc_executor.py:953] WorkerProc failed to start.
(Worker_TP1 pid=4) ERROR 06-02 10:00:08 [multiproc_executor.py:953] Traceback (most recent call last):
(Worker_TP1 pid=4) ERROR 06-02 10:00:08 [multiproc_executor.py:953]   File "/x/vllm/model.py", line 12, in odd
(Worker_TP1 pid=4) ERROR 06-02 10:00:08 [multiproc_executor.py:953]     raise SomethingNew("never seen")
(Worker_TP1 pid=4) ERROR 06-02 10:00:08 [multiproc_executor.py:953] vllm.errors.SomethingNew: never seen"""  # noqa: E501 - a log
    )
    assert diagnosis.first_exception == "vllm.errors.SomethingNew: never seen"
    assert (diagnosis.symptom, diagnosis.place) == (None, "model.py:odd")


def test_of_a_chain_the_exception_that_says_something_is_shown() -> None:
    lookup = """Traceback (most recent call last):
  File "/x/a.py", line 1, in get
    return table[name]
KeyError: 'some-name'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/b.py", line 2, in resolve
    raise ValueError(text)
ValueError: there is no such name"""
    assert of(lookup).first_exception == "ValueError: there is no such name"
    caused = """Traceback (most recent call last):
  File "/x/a.py", line 1, in read
    raise ValueError(1)
ValueError: the true cause

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/b.py", line 2, in load
    raise RuntimeError(2)
RuntimeError: could not load"""
    diagnosis = of(caused)
    assert (diagnosis.first_exception, diagnosis.place) == ("ValueError: the true cause", "a.py:read")


def test_a_message_may_begin_on_the_next_line_and_pydantics_reason_is_unwrapped() -> None:
    assert of("ValueError:\n  the message").first_exception == "ValueError: the message"
    text = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, the reason [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
    )
    assert of(text).first_exception == "ValidationError: ModelConfig: the reason"


def test_two_processes_in_one_line_are_told_apart() -> None:
    line = (
        "(Worker_TP0 pid=5) INFO 06-02 10:00:00 [a.py:1] loading(Worker_TP1 pid=6) ERROR 06-02 10:00:00 [b.py:2] "
        "ValueError: Unknown quantization method: odd. Must be one of ['awq']."
    )
    assert of(line).symptom == "quantization-unknown"


def test_an_exception_without_a_message_is_named_by_its_place() -> None:
    diagnosis = of(
        'Traceback (most recent call last):\n  File "/x/odd.py", line 7, in check\n    assert fits\nAssertionError'
    )
    assert (diagnosis.first_exception, diagnosis.place) == ("AssertionError", "odd.py:check")


def test_an_engine_that_dies_after_it_was_ready_is_dead() -> None:
    diagnosis = of(
        "\n".join(
            [
                *READY,
                "(EngineCore pid=2) ERROR 06-02 10:00:09 [core.py:1512] EngineCore encountered a fatal error.",
                "(EngineCore pid=2) ERROR 06-02 10:00:09 [core.py:1512] Traceback (most recent call last):",
                '(EngineCore pid=2) ERROR 06-02 10:00:09 [core.py:1512]   File "/x/run.py", line 1, in step',
                "(EngineCore pid=2) ERROR 06-02 10:00:09 [core.py:1512] torch.AcceleratorError: CUDA "
                "error: an illegal memory access was encountered",
                "(APIServer pid=1) ERROR 06-02 10:00:09 [async_llm.py:1] AsyncLLM output_handler failed.",
                "(APIServer pid=1) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
                "(APIServer pid=1) INFO 06-02 10:00:10 [launcher.py:254] [shutdown] API server: shutdown triggered",
            ]
        )
    )
    assert (diagnosis.healthy, diagnosis.ready, diagnosis.symptom) == (False, True, "illegal-access")


def test_an_engine_that_was_killed_is_not_said_to_have_its_cause_in_a_part_that_is_missing() -> None:
    report = [
        "(APIServer pid=1) WARNING 06-02 10:00:09 [core_client.py:817] [shutdown] MPClient: engine core exited "
        "unexpectedly; starting cleanup",
        "(APIServer pid=1) ERROR 06-02 10:00:09 [async_llm.py:906] AsyncLLM output_handler failed.",
        "(APIServer pid=1) ERROR 06-02 10:00:09 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    ]
    head = "(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:299] non-default args: {'model_tag': 'a/b'}"
    whole, excerpt = of("\n".join([head, *READY, *report])), of("\n".join(report))
    assert (whole.ready, whole.healthy, whole.symptom) == (True, False, "wrapper-error")
    assert whole.explanation is not None and "was killed" in whole.explanation
    assert "dmesg" in whole.fixes[0].text
    assert excerpt.explanation is not None and "not in this text" in excerpt.explanation


def test_a_server_that_was_killed_while_nobody_watched_is_said_to_be_gone() -> None:
    gone = of("\n".join(READY), End(dead=True))
    assert gone.symptom == "died-silently"
    assert gone.explanation is not None and "it was killed" in gone.explanation and "dmesg" in gone.fixes[0].text
    ended = of("\n".join(READY), End(dead=True, exit_code=1))
    assert ended.explanation == "The server ended with exit code 1, and its log does not say why."


def test_a_requested_stop_is_no_death_even_with_an_engine_dead_error() -> None:
    text = [
        *READY,
        "(APIServer pid=1) INFO 06-02 10:00:10 [launcher.py:254] [shutdown] API server: shutdown triggered",
        "(APIServer pid=1) ERROR 06-02 10:00:11 [async_llm.py:1] AsyncLLM output_handler failed.",
        "(APIServer pid=1) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    ]
    diagnosis = of("\n".join(text), End(dead=True, exit_code=0, asked_for=True))
    assert (diagnosis.healthy, diagnosis.symptom, diagnosis.first_exception) == (True, None, None)


def test_a_failed_request_is_no_death() -> None:
    text = [
        *READY,
        "ERROR:    Exception in ASGI application",
        "Traceback (most recent call last):",
        '  File "/x/app.py", line 1, in chat',
        "ValueError: bad request",
        'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
    ]
    assert of("\n".join(text)).healthy


@pytest.mark.parametrize(
    ("code", "symptom"),
    [(-9, "exit-137"), (137, "exit-137"), (-11, "segfault"), (-7, "bus-error"), (1, "died-silently")],
)
def test_an_end_without_a_word_is_told_by_its_exit_code(code: int, symptom: str) -> None:
    for text in ("", "\n".join(READY)):
        diagnosis = of(text, End(dead=True, exit_code=code))
        assert (diagnosis.healthy, diagnosis.symptom, diagnosis.first_exception) == (False, symptom, None)
        assert diagnosis.explanation and diagnosis.fixes


def test_a_worker_that_hangs_after_ready_is_seen_and_waiting_during_a_boot_is_not() -> None:
    waiting = (
        "(EngineCore pid=2) INFO 06-02 10:00:09 [shm_broadcast.py:1] No available shared memory broadcast "
        "block found in 60 seconds."
    )
    hang = of("\n".join([*READY, *[waiting] * 5]))
    assert (hang.healthy, hang.symptom) == (False, "shm-broadcast-wait")
    boot = of("\n".join([READY[0], *[waiting] * 5, READY[1]]))
    assert (boot.healthy, boot.symptom) == (True, None)


def test_skipped_tensors_make_a_ready_server_useless() -> None:
    skipped = (
        "(EngineCore pid=2) WARNING 06-02 10:00:09 [qwen3_5.py:418] Parameter layers.8.weight_packed not found "
        "in params_dict, skip loading"
    )
    diagnosis = of("\n".join([READY[0], *[skipped] * 300, READY[1]]))
    assert (diagnosis.ready, diagnosis.healthy, diagnosis.symptom) == (True, False, "weights-skipped-silently")
    assert diagnosis.explanation is not None and "300 tensors" in diagnosis.explanation


def test_a_draft_that_was_asked_for_and_never_ran_is_said() -> None:
    text = [
        "(APIServer pid=1) INFO 06-02 10:00:00 [utils.py:286] non-default args: "
        "{'model': 'a/b', 'speculative_config': {'method': 'dflash'}}",
        *READY,
        *[
            "(APIServer pid=1) INFO 06-02 10:00:10 [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 "
            "tokens/s, Avg generation throughput: 25.0 tokens/s"
        ]
        * 4,
    ]
    assert of("\n".join(text)).symptom == "spec-silently-absent"
    made_without = "(EngineCore pid=2) INFO 06-02 10:00:01 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with "
    without = of("\n".join([text[0], f"{made_without}config: model='a/b', speculative_config=None, x=1", *READY]))
    assert without.symptom == "spec-silently-absent" and "speculative_config=None" in (without.explanation or "")
    unasked = of("\n".join([f"{made_without}config: model='a/b', speculative_config=None, x=1", *READY]))
    assert unasked.symptom is None and unasked.healthy
    drafted = [
        *text,
        "(APIServer pid=1) INFO 06-02 10:00:10 [metrics.py:1] SpecDecoding metrics: Mean acceptance "
        "length: 2.68, Avg Draft acceptance rate: 56.0%",
    ]
    assert of("\n".join(drafted)).symptom is None


def test_what_nothing_announced_gives_way_to_what_ended_the_process() -> None:
    stray = [
        "(EngineCore pid=2) Traceback (most recent call last):",
        '(EngineCore pid=2)   File "/x/optional.py", line 3, in <module>',
        "(EngineCore pid=2) ModuleNotFoundError: No module named 'optional'",
    ]
    death = [
        f"{ENGINE}EngineCore failed to start.",
        f"{ENGINE}Traceback (most recent call last):",
        f'{ENGINE}  File "/x/odd.py", line 3, in go',
        f"{ENGINE}ValueError: a new thing",
    ]
    diagnosis = of("\n".join([ARGS, *stray, *death]))
    assert (diagnosis.symptom, diagnosis.first_exception) == (None, "ValueError: a new thing")
    assert of("\n".join([ARGS, *stray])).symptom == "module-missing"
    assert of("\n".join([ARGS, *stray, READY[1]])).healthy


def test_a_rank_that_only_lost_its_peer_is_not_the_cause() -> None:
    worker = "(Worker_TP1 pid=4) ERROR 06-02 10:01:29 [multiproc_executor.py:953] "
    lines = [
        ARGS,
        "(Worker_TP0 pid=3) ERROR 06-02 10:01:28 [x.py:1] torch.distributed.DistBackendError: NCCL error, "
        "remote process exited",
        f"{worker}WorkerProc failed to start.",
        f"{worker}Traceback (most recent call last):",
        f'{worker}  File "/x/gpu_worker.py", line 1, in load_model',
        f"{worker}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    ]
    assert of("\n".join(lines)).symptom == "weights-oom"


def test_an_old_failed_request_did_not_kill_a_server_that_a_signal_ended() -> None:
    text = "\n".join(
        [*READY, "Traceback (most recent call last):", '  File "/x/a.py", line 1, in chat', "ValueError: bad request"]
    )
    diagnosis = of(text, End(dead=True, exit_code=-9))
    assert (diagnosis.symptom, diagnosis.first_exception) == ("exit-137", None)


def test_a_stop_by_signal_that_was_asked_for_is_none() -> None:
    text = "\n".join(
        [ARGS, "Traceback (most recent call last):", '  File "/x/run.py", line 3, in <module>', "KeyboardInterrupt"]
    )
    assert of(text, End(dead=True, exit_code=-2, asked_for=True)).symptom is None
    assert of(text).symptom == "terminated"
