"""Real boots of the CPU build that must fail: each ends in the right sentence at once, and one is started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cockpit import paths
from cockpit.launch.types import LaunchPlan
from cockpit.session import Session
from cockpit.supervisor.again import fix_words, usable_fix
from cockpit.supervisor.ready import Progress, wait_ready
from cockpit.supervisor.spawn import Running, start

from .conftest import SLUG

pytestmark = pytest.mark.live
NO_CLASS = "no-class"
_TIMEOUT_SECONDS = 240.0


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a command, and what its diagnosis must say."""

    flags: tuple[str, ...]
    symptom: str
    words: str
    """Of the explanation or the exception."""
    fix: str | None = None
    """As the screen offers it; None where no new start helps by itself."""
    model: str | None = None


FAULTS = {
    "a context that is too long": Fault(
        ("--max-model-len", "100000"), "max-len-over-derived", "100,000", "--max-model-len 4096"
    ),
    "an unknown flag": Fault(("--swap-space", "4"), "unknown-flag", "--swap-space"),
    "a folder that is not there": Fault((), "model-not-found", "/no/such/model", model="/no/such/model"),
    "heads that cannot be shared": Fault(("--tensor-parallel-size", "3"), "tp-divisibility", "3"),
    "a class that vLLM lacks": Fault((), "arch-unsupported", "NoSuchModelForCausalLM", model=NO_CLASS),
    "a port that is taken": Fault(("--port", "PORT"), "port-in-use", "is taken"),
}


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """How a boot ended."""

    running: Any
    progress: Progress
    notice_seconds: float
    """From the end of the process to the last progress."""


@pytest.fixture(scope="module")
def session(home: Path) -> Session:
    return Session()


@pytest.fixture(scope="module")
def models(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Copies of the tiny model that lack something."""
    root, source = tmp_path_factory.mktemp("models"), paths.shipped("slugs") / "cpu" / "tiny-qwen3"
    shutil.copytree(source, root / NO_CLASS)
    config = root / NO_CLASS / "config.json"
    config.write_text(config.read_text().replace("Qwen3ForCausalLM", "NoSuchModelForCausalLM"))
    return {NO_CLASS: str(root / NO_CLASS)}


@pytest.fixture(scope="module")
def deaths(session: Session, models: dict[str, str]) -> Iterator[dict[str, Death]]:
    """Every fault is booted at the same time, past the rules that would have refused most of them."""
    plan = session.plan(SLUG, {})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found: dict[str, Death] = {}
        threads = [
            threading.Thread(target=_die, args=(fault, _faulty(plan, fault, models, port), f"fault-{number}", found))
            for number, fault in enumerate(FAULTS.values())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield {name: found[fault.symptom] for name, fault in FAULTS.items()}


def _faulty(plan: LaunchPlan, fault: Fault, models: dict[str, str], port: str) -> LaunchPlan:
    words = list(plan.argv)
    if fault.model is not None:
        words[2] = models.get(fault.model, fault.model)
    flags = tuple(port if word == "PORT" else word for word in fault.flags)
    # A flag that comes later wins.
    return msgspec.structs.replace(plan, argv=(*words, *flags))


def _die(fault: Fault, plan: LaunchPlan, name: str, found: dict[str, Death]) -> None:
    running = start(plan, name)
    assert running.record.process is not None
    ended: list[float] = []
    pid = running.record.process.pid
    watcher = threading.Thread(target=lambda: ended.append(_end_of(pid)))
    watcher.start()
    *_, last = wait_ready(running, _TIMEOUT_SECONDS)
    noticed = time.monotonic()
    watcher.join(1)
    found[fault.symptom] = Death(
        running=running, progress=last, notice_seconds=noticed - ended[0] if ended else float("inf")
    )


def _end_of(pid: int) -> float:
    """When a child ends, without taking its exit code from whoever waits for it."""
    with contextlib.suppress(ChildProcessError):  # seen and reaped in the same moment
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return time.monotonic()


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_boot_ends_in_the_right_sentence(name: str, deaths: dict[str, Death]) -> None:
    fault, death = FAULTS[name], deaths[name]
    diagnosis = death.progress.diagnosis
    assert death.progress.life == "dead" and diagnosis is not None
    assert death.progress.exit_code not in (0, None)
    assert diagnosis.symptom == fault.symptom, (diagnosis.symptom, diagnosis.first_exception)
    assert fault.words in f"{diagnosis.explanation} {diagnosis.first_exception}"
    assert diagnosis.explanation and diagnosis.fixes
    assert death.notice_seconds < 2.0


def test_a_context_that_is_too_long_is_started_again_and_ready(session: Session, deaths: dict[str, Death]) -> None:
    name = "a context that is too long"
    running: Running = deaths[name].running
    fix = usable_fix(session.diagnosis(running.record.name), "cpu")
    assert fix is not None
    assert fix_words(fix, session.catalog.get(SLUG).slug) == FAULTS[name].fix
    again = session.start(session.plan_again(running.record, fix))
    *_, last = wait_ready(again, _TIMEOUT_SECONDS)
    assert last.life == "ready" and last.boot.facts.max_model_len == fix.set["max_model_len"]
    session.stop(again.record.name)
