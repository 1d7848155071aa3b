"""Install and remove managed engines: resumable after any break, and at once when there is nothing to do."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cockpit import paths
from cockpit.errors import CockpitError, FailedError
from cockpit.rig.engines import probe_engine
from cockpit.rig.managed import Marker, home_of, managed_homes, read_marker, write_marker
from cockpit.rig.types import Engine
from cockpit.supervisor.install_checks import check_before
from cockpit.supervisor.install_steps import Job, Recipe, Step, recipe_for
from cockpit.supervisor.pip_runner import ProgramError, Runner, nearest_versions, offered_versions

OnProgress = Callable[[str, str], None]
"""Receives the title of the step being done and a detail; the detail is empty when the step begins."""

LOG = "install.log"
_LOCK_POLL_SECONDS = 0.5
_WAITING = "Wait for another cockpit"


def install(kind: str, on_progress: OnProgress = lambda title, detail: None) -> Engine:
    """Make the engine ``kind`` (``cpu`` or a version of CUDA vLLM) and describe it.

    A finished engine is returned at once; a broken or interrupted install goes on after its last finished
    step. Raises CockpitError when it cannot begin (bad kind, no disk space, no venv) and FailedError when a
    step fails.
    """
    recipe = recipe_for(kind)
    home = home_of(recipe.engine_id)
    finished = _finished(home, recipe)
    if finished is not None:
        return finished
    paths.ensure_private(paths.engines_home())
    with _lock(recipe, on_progress) as hold:
        finished = _finished(home, recipe)
        if finished is not None:
            return finished
        paths.ensure_private(home)
        job = Job(
            home=home,
            engine_id=recipe.engine_id,
            version=recipe.version,
            base_python=sys.executable,
            runner=Runner(home / LOG, hold),
        )
        try:
            _run_steps(job, kind, recipe, on_progress)
        except FailedError as error:
            _refuse_no_version(error, recipe, home)
            resume = f"Run `cockpit engines install {kind}` again to resume."
            raise FailedError(error.title, error.detail, f"{error.fix} {resume}".strip()) from error
        return probe_engine(home / "bin" / "vllm", recipe.engine_id, "managed")


def _refuse_no_version(error: FailedError, recipe: Recipe, home: Path) -> None:
    """When pip knows other versions and not this one, nothing can be resumed: leave no folder, name the nearest.

    Raises CockpitError then.
    """
    lines = error.lines if isinstance(error, ProgramError) else ()
    versions = offered_versions(lines, recipe.package)
    if not versions:
        return
    shutil.rmtree(home, ignore_errors=True)
    near = nearest_versions(recipe.version, versions)
    raise CockpitError(
        f"there is no {recipe.package} {recipe.version} for this machine's Python",
        f"the nearest: {', '.join(near)}" if near else "",
        f"`cockpit engines install {near[-1]}` installs that." if near and recipe.package == "vllm" else "",
    ) from error


def remove(engine_id: str) -> None:
    """Delete the managed engine ``engine_id``, also an unfinished one.

    Raises CockpitError when there is none of that id, or when it is being installed; FailedError when a file
    cannot be deleted.
    """
    known = {home.name: home for home in managed_homes()}
    if engine_id not in known:
        listed = ", ".join(known) or "none"
        raise CockpitError(
            f"there is no managed engine {engine_id!r}",
            f"managed engines: {listed}",
            "`cockpit engines` lists them all.",
        )
    home = known[engine_id]
    lock = _take_lock(engine_id)
    if lock is None:
        raise CockpitError(f"{engine_id} is being installed", fix="Wait for it, or stop that install.")
    try:
        marker = read_marker(home)
        if marker is not None:
            write_marker(home, Marker(kind=marker.kind))
        shutil.rmtree(home)
    except OSError as error:
        detail = f"{error.filename or home}: {error.strerror or error}"
        raise FailedError(f"{engine_id} could not be deleted", detail, f"Delete {home} yourself.") from error
    finally:
        _let_go(engine_id, lock)


def _finished(home: Path, recipe: Recipe) -> Engine | None:
    """The engine in ``home`` when its install is finished and its files are still there and readable."""
    marker = read_marker(home)
    if marker is None or not marker.finished or not (home / "bin" / "python").exists():
        return None
    try:
        engine = probe_engine(home / "bin" / "vllm", recipe.engine_id, "managed")
    except CockpitError:
        return None
    return engine if engine.version == recipe.version else None


def _run_steps(job: Job, kind: str, recipe: Recipe, on_progress: OnProgress) -> None:
    """Do every step that the marker does not have, recording each."""
    done = _steps_done(job, kind, recipe)
    check_before(job.home, recipe, done)
    for step in recipe.steps:
        if step.id in done:
            continue
        _run_step(step, job, on_progress)
        done.append(step.id)
        write_marker(job.home, Marker(kind=kind, done=tuple(done), finished=step is recipe.steps[-1]))


def _run_step(step: Step, job: Job, on_progress: OnProgress) -> None:
    """Do one step; an error of the file system becomes a sentence."""
    on_progress(step.title, "")
    try:
        step.run(job, lambda detail: on_progress(step.title, detail))
    except OSError as error:
        detail = f"{error.filename or job.home}: {error.strerror or error}"
        raise FailedError(f"the step `{step.title}` failed", detail) from error


def _steps_done(job: Job, kind: str, recipe: Recipe) -> list[str]:
    """The recorded steps, in order; none of them when the engine's Python no longer works."""
    marker = read_marker(job.home)
    if marker is None or marker.kind != kind or not _python_works(job.python):
        return []
    if marker.finished:  # finished, yet not usable: something in it was changed, so make it anew
        return []
    done: list[str] = []
    for step in recipe.steps:
        if step.id not in marker.done:
            break
        done.append(step.id)
    return done


def _python_works(python: Path) -> bool:
    """Whether the engine's Python starts and has pip."""
    try:
        result = subprocess.run([str(python), "-I", "-c", "import pip"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


@contextmanager
def _lock(recipe: Recipe, on_progress: OnProgress) -> Iterator[int]:
    """Hold the engine's lock, waiting for another install of the same engine to end."""
    told = False
    while (descriptor := _take_lock(recipe.engine_id)) is None:
        if not told:
            on_progress(_WAITING, f"it is installing {recipe.engine_id} at this moment")
            told = True
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield descriptor
    finally:
        _let_go(recipe.engine_id, descriptor)


def _lock_file(engine_id: str) -> Path:
    return paths.engines_home() / f".{engine_id}.lock"


def _take_lock(engine_id: str) -> int | None:
    """A descriptor of the engine's lock file, locked; None while another has it.

    The kernel lets a lock go when its last holder ends.
    """
    file = _lock_file(engine_id)
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # who had it before has deleted it: what is locked here guards nothing
        os.close(descriptor)


def _let_go(engine_id: str, descriptor: int) -> None:
    """Give the lock back, and delete its file where there is no engine to guard."""
    with suppress(OSError):
        if not home_of(engine_id).exists():
            _lock_file(engine_id).unlink()
    os.close(descriptor)
