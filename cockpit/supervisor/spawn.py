"""Starting a server so that it outlives its cockpit, and holding on to one that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from cockpit import paths
from cockpit.errors import CockpitError
from cockpit.launch.render import shown_argv, shown_env
from cockpit.launch.types import LaunchPlan
from cockpit.supervisor import process, store
from cockpit.supervisor.boot_clock import slept_seconds
from cockpit.supervisor.drafts import drop_drafts
from cockpit.supervisor.log_bounds import prune
from cockpit.supervisor.origin import here
from cockpit.supervisor.record import InstanceRecord

MARK = "COCKPIT_INSTANCE"
"""Variable of a server that a cockpit started: its record's file."""


class Exit(msgspec.Struct, frozen=True):
    """A server process that has ended."""

    code: int | None
    """Exit code, negative for a signal; None when it was no child of this cockpit."""


class Running:
    """A server: its record and, when this cockpit started it, the child that it is."""

    def __init__(self, record: InstanceRecord, child: subprocess.Popen[bytes] | None = None) -> None:
        self.record = record
        self._child = child

    def poll(self) -> Exit | None:
        """None while the server process lives, else how it ended; never blocks, and reaps a child."""
        if self._child is not None:
            code = self._child.poll()
            return None if code is None else Exit(code)
        if self.record.ended_at is not None:
            return Exit(self.record.exit_code)
        root = self.record.process
        return None if root is not None and process.is_alive(root) else Exit(None)

    def update(self, **changes: Any) -> bool:
        """Change fields of the record on disk and here; False when another cockpit removed it."""
        now = store.update(self.record, **changes)
        self.record = now or msgspec.structs.replace(self.record, **changes)
        return now is not None

    def note(self, **changes: Any) -> None:
        """The same for what is only observed: a disk that is full keeps it from nobody, it is found out again."""
        try:
            self.update(**changes)
        except CockpitError:
            self.record = msgspec.structs.replace(self.record, **changes)

    def note_death(self, code: int | None) -> None:
        """Keep the record as that of a dead server, with what is known of its end."""
        try:
            self.record = store.mark_dead(self.record, code)
        except CockpitError:
            ended_at = self.record.ended_at or time.time()
            self.record = msgspec.structs.replace(self.record, ended_at=ended_at, exit_code=code)


def attach(record: InstanceRecord) -> Running:
    """Hold a server that any cockpit started.

    When its cockpit died before it could note the process, the process is found by its log file.
    """
    running = Running(record)
    if record.process is None and record.ended_at is None:
        found = process.leader_writing_to(record.log)
        if found is not None:
            running.note(process=found)
    return running


def start(plan: LaunchPlan, name: str | None = None, forecast: dict[str, Any] | None = None) -> Running:
    """Start the planned server in a session of its own, output to a log file, and record it.

    The record is written first, so that no crash can leave a server that nobody knows of. Raises CockpitError when
    the state folder cannot be written, the name is taken or the command cannot be executed; nothing is left then.
    """
    paths.ensure_private(paths.logs_home())
    prune(store.logs())
    drop_drafts(paths.state_home())
    created_at = time.time()
    record = store.reserve(lambda free: _draft(plan, free, created_at, forecast), plan.slug, name)
    try:
        child = _spawn(plan, record)
    except CockpitError:
        store.remove(record)
        _remove_empty(Path(record.log))
        raise
    running = Running(record, child)
    recorded = False
    try:
        recorded = running.update(process=process.identity(child.pid, zombies=True))
    finally:
        if not recorded:  # a server that nobody knows of must not run; an unreaped child's pid is still its own
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if not recorded:
        raise CockpitError(f"{record.name} was stopped while it started", "", "Start it again.")
    return running


def _draft(plan: LaunchPlan, name: str, created_at: float, forecast: dict[str, Any] | None) -> InstanceRecord:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(created_at))
    return InstanceRecord(
        name=name,
        slug=plan.slug,
        model=plan.model,
        served_model_name=plan.served_model_name,
        argv=shown_argv(plan.argv),
        env=shown_env(plan.env),
        cwd=plan.cwd,
        host=plan.host,
        port=plan.port,
        url=plan.url,
        gpus=plan.gpus,
        platform=plan.platform,
        engine=plan.engine,
        engine_version=plan.engine_version,
        gpu_model=plan.gpu_model,
        extra_env=shown_env(plan.extra_env),
        values=plan.values,
        log=str(paths.logs_home().resolve() / f"{name}-{stamp}.log"),
        origin=here(),
        created_at=created_at,
        slept_before=slept_seconds(),
        forecast=forecast,
    )


def child_environment(env: dict[str, str | None], mark: str) -> dict[str, str]:
    """The caller's environment with the plan's changes and the record's mark; None removes a variable."""
    merged = {**os.environ, **env, MARK: mark}
    return {key: value for key, value in merged.items() if value is not None}


def _spawn(plan: LaunchPlan, record: InstanceRecord) -> subprocess.Popen[bytes]:
    log = record.log
    if not plan.argv:
        raise CockpitError("the plan has no command", "", "Check the engine with `cockpit engines`.")
    if not Path(plan.cwd).is_dir():
        raise CockpitError(f"the folder {plan.cwd} does not exist", "", "Start from a folder that does.")
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CockpitError(
            f"cannot write the log {log}", error.strerror or str(error), "Make room and make the folder writable."
        ) from error
    try:
        return subprocess.Popen(
            list(plan.argv),
            cwd=plan.cwd,
            env=child_environment(plan.env, str(paths.instances_home() / f"{record.name}.json")),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            close_fds=True,
        )
    except (OSError, ValueError) as error:
        detail = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CockpitError(
            f"cannot execute {plan.argv[0]}", detail, "Check the engine with `cockpit engines`."
        ) from error
    finally:
        os.close(output)


def _remove_empty(log: Path) -> None:
    """A log into which nothing was written says nothing."""
    try:
        if log.stat().st_size == 0:
            log.unlink()
    except FileNotFoundError:
        return
