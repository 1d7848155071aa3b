"""Exceptions of vLLM and its libraries, each in the logs of an engine, a worker, a container and a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixture_yaml import read_yaml

from cockpit.supervisor.diagnose.files import diagnose_lines
from cockpit.supervisor.logfile import clean

EXCEPTIONS = read_yaml(Path(__file__).parent / "fixtures" / "exceptions.yaml")
CASES = [(kind, case["at"], case["error"]) for kind, cases in EXCEPTIONS.items() for case in cases]
PACKAGES = "/usr/local/lib/python3.12/dist-packages/"
SERVER = "(APIServer pid=101) "
ENGINE = "(EngineCore pid=202) ERROR 10-03 09:11:40 [core.py:1165] "
WORKER = "(Worker_TP1 pid=303) ERROR 10-03 09:11:40 [multiproc_executor.py:953] "
WRAPPER = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
)


def traceback(*frames: str, error: str) -> Iterator[str]:
    yield "Traceback (most recent call last):"
    for frame in frames:
        module, _, function = frame.partition(":")
        yield f'  File "{PACKAGES}{module}", line 77, in {function}'
        yield "    return self._call(*args, **kwargs)"
    yield from error.split("\n")


def engine_death(at: str, error: str) -> Iterator[str]:
    """The log of a boot whose engine died of it, as vLLM 0.2x and 0.3x write it."""
    yield f"{SERVER}INFO 10-03 09:11:02 [utils.py:299] non-default args: {{'model_tag': 'acme/Foo-7B'}}"
    yield f"{ENGINE}EngineCore failed to start."
    above = ("vllm/v1/engine/core.py:run_engine_core", "vllm/v1/worker/gpu_worker.py:start")
    yield from (f"{ENGINE}{line}" for line in traceback(*above, at, error=error))
    yield "(EngineCore pid=202) Process EngineCore:"
    yield from (f"(EngineCore pid=202) {line}" for line in traceback(*above, at, error=error))
    outer = traceback("vllm/v1/engine/utils.py:wait_for_engine_startup", error=WRAPPER)
    yield from (f"{SERVER}{line}" for line in outer)


def as_worker(line: str) -> str:
    return line.replace(ENGINE, WORKER).replace("EngineCore failed", "WorkerProc failed")


FORMS: dict[str, Callable[[str], str]] = {
    "engine": str,
    "worker": as_worker,
    "compose": lambda line: f"vllm-1  | {line}",
    "kubernetes": lambda line: f"2026-10-03T09:11:40.123456789Z stderr F {line}",
    "escapes": lambda line: re.sub(r"^(\(\w+ pid=\d+\)) ", r"ESC[1;36m\1ESC[0;0m ", line),
    "none": lambda line: re.sub(r"^\(\w+ pid=\d+\) ", "", line),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_every_exception_is_known_in_every_form_of_a_log(form: str) -> None:
    wrong = {}
    for kind, at, error in CASES:
        lines = [clean(FORMS[form](line), 8000) for line in engine_death(at, error)]
        diagnosis = diagnose_lines(lines)
        raised = error.partition(":")[0].rpartition(".")[2] in (diagnosis.first_exception or "")
        if (
            diagnosis.symptom != kind
            or not raised
            or not diagnosis.explanation
            or not diagnosis.fixes
            or diagnosis.healthy
        ):
            wrong[f"{at} {error[:60]}"] = (kind, diagnosis.symptom, diagnosis.first_exception)
    assert not wrong
