"""A port that others have: noticed at any time of a boot, told with its owner, and never waited for without end."""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from cockpit.cli.serve import death, follow, served_json
from cockpit.launch.types import LaunchPlan
from cockpit.rig.host import port_is_free, port_owner, process_name
from cockpit.session import Session
from cockpit.supervisor import boot_watch, port_watch, process, store
from cockpit.supervisor.boot_watch import BootWatch, Progress, wait_ready
from cockpit.supervisor.listeners import anybody_listens, meets, others_at
from cockpit.supervisor.port_watch import PortWatch
from cockpit.supervisor.process import members_of
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.spawn import Running, start
from cockpit.supervisor.stop import stop

from .conftest import PATIENCE, until_settled, wait_for

Plans = Callable[..., LaunchPlan]


class _Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@contextlib.contextmanager
def thief(port: int) -> Iterator[None]:
    """This process answers everything on the port, as another vLLM would."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Healthy, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket()
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.socket.bind(("127.0.0.1", port))
    server.server_activate()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_watch, "_LOOK_EVERY_SECONDS", 0.2)


def grow_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no slow server is waited for."""
    monkeypatch.setattr(port_watch, "_LISTENS_WITHIN_SECONDS", 1.0)
    monkeypatch.setattr(port_watch, "_ANSWERS_WITHIN_SECONDS", 2.0)
    monkeypatch.setattr(port_watch, "_PATIENT_EVERY_SECONDS", 2.0)


def hopeless(monkeypatch: pytest.MonkeyPatch, running: Running) -> Progress:
    """The end of the wait for a server that will never answer."""
    grow_impatient(monkeypatch)
    last = until_settled(running)
    assert last.hopeless and not last.timed_out
    return last


@pytest.fixture
def booted(tmp_path: Path) -> Path:
    """What a server waits for that ``--boots-when`` is given."""
    return tmp_path / "booted"


def has_bound(log: str) -> bool:
    return "has bound its port" in Path(log).read_text(encoding="utf-8", errors="replace")


@pytest.mark.fault(
    "two servers boot on one port", "one is ready, the other is told whose port it is, and the wait ends"
)
def test_of_two_servers_that_boot_on_one_port_the_second_is_not_waited_for(
    make_plan: Plans, booted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(make_plan("--binds-early", "--boots-when", str(booted)))
    second = start(make_plan("--binds-early", "--boots-when", f"{booted}-too"))
    for running in (first, second):
        assert wait_for(lambda log=running.record.log: has_bound(log))  # type: ignore[misc]
    booted.touch()
    assert until_settled(first).life == "ready"
    booted.with_name(f"{booted.name}-too").touch()
    last = hopeless(monkeypatch, second)
    assert last.life == "starting" and last.boot.ready
    assert last.silence is not None and last.silence.id == "port-taken"
    assert first.record.process is not None
    stuck = served_json(second, last)["not_awaited"]
    assert stuck["id"] == "port-taken" and "cpu-fake (pid" in stuck["sentence"]
    said = death(second, last).sentence()
    assert f"port {second.record.port}" in said and f"cpu-fake (pid {first.record.process.pid})" in said
    assert "--set port=N" in said and "cockpit stop cpu-fake-2" in said
    for running in (first, second):
        assert stop(running, grace_seconds=4).stopped


@pytest.mark.fault(
    "a port is taken while its server loads", "said at once with the owner; the death that follows is seen"
)
def test_a_port_that_is_taken_during_the_boot_is_told_at_once(
    make_plan: Plans,
    free_port: int,
    booted: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = PortWatch.warning

    def warning(watch: PortWatch, record: InstanceRecord, seconds: float) -> str | None:
        told = look(watch, record, seconds)
        if told is not None:
            booted.touch()
        return told

    monkeypatch.setattr(PortWatch, "warning", warning)
    running = start(make_plan("--boots-when", str(booted)))
    with thief(free_port):
        last = follow(running, PATIENCE)
    said = capsys.readouterr().err
    assert last.life == "dead" and last.exit_code == 1
    assert said.count(f"port {free_port}, which cpu-fake is to serve on, is listened on by") == 1
    assert f"(pid {os.getpid()})" in said
    assert stop(running).stopped


@pytest.mark.parametrize(
    "error", [psutil.AccessDenied(1), psutil.NoSuchProcess(1), PermissionError(13, "no"), RuntimeError("a row")]
)
def test_listeners_that_cannot_be_listed_are_nobody_and_no_error(
    make_plan: Plans, free_port: int, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    running = start(make_plan("--boot-seconds", "3600"))

    def fail(**_: object) -> None:
        raise error

    with thief(free_port):
        assert others_at(running.record) != () and port_owner(free_port) is not None
        monkeypatch.setattr(psutil, "net_connections", fail)
        assert others_at(running.record) == () and port_owner(free_port) is None
        assert not port_is_free("127.0.0.1", free_port)
    assert stop(running).stopped


def test_a_listener_whose_process_is_seen_only_at_the_second_look_is_not_another_users(
    make_plan: Plans, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(make_plan())
    until_settled(running)
    looks = [0]
    real = psutil.net_connections

    def late(**words: str) -> list[Any]:
        looks[0] += 1
        return [one._replace(pid=None) if looks[0] == 1 else one for one in real(**words)]

    monkeypatch.setattr(psutil, "net_connections", late)
    assert others_at(running.record) == () and looks == [2]
    monkeypatch.setattr(psutil, "net_connections", lambda **words: [one._replace(pid=None) for one in real(**words)])
    assert others_at(running.record) == (), "its own, for it listens there"
    monkeypatch.setattr(process, "owns_port", lambda *_: False)
    assert others_at(running.record) == ("a program of another user",)
    monkeypatch.undo()
    assert stop(running).stopped


def test_a_pid_that_a_dead_instance_had_is_not_its_own_any_more(make_plan: Plans, free_port: int) -> None:
    running = start(make_plan("--boot-seconds", "3600"))
    now = process.identity(os.getpid())
    assert now is not None
    dead = msgspec.structs.replace(now, birth=f"00000000{now.birth[8:]}")
    store.save(msgspec.structs.replace(running.record, name="dead", process=dead, log="/x"))
    with thief(free_port):
        assert others_at(running.record) == (process_name(os.getpid()),)
    assert stop(running).stopped


def test_a_port_that_is_free_again_in_time_does_no_harm(make_plan: Plans, free_port: int, booted: Path) -> None:
    running = start(make_plan("--binds-early", "--boots-when", str(booted)))
    assert wait_for(lambda: has_bound(running.record.log))
    with thief(free_port):
        assert others_at(running.record) != ()
    booted.touch()
    assert until_settled(running).life == "ready"
    assert others_at(running.record) == ()
    assert stop(running).stopped


@pytest.mark.fault("a port was taken when its server wanted to listen, and is free since", "it will not listen: said")
def test_a_server_that_missed_its_moment_to_listen_is_not_waited_for(
    make_plan: Plans, free_port: int, booted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(make_plan("--binds-early", "--boots-when", str(booted)))
    assert wait_for(lambda: has_bound(running.record.log))
    with thief(free_port):
        booted.touch()
        watch = BootWatch(running)
        assert wait_for(lambda: watch.tick().boot.ready)
    last = hopeless(monkeypatch, running)
    assert last.silence is not None and last.silence.id == "no-listener"
    assert stop(running, grace_seconds=4).stopped


@pytest.mark.fault("two servers share one port (SO_REUSEPORT)", "ready, with a warning that names the other")
def test_a_shared_port_is_told(make_plan: Plans, booted: Path) -> None:
    first = start(make_plan("--binds-early", "--reuse-port"))
    assert until_settled(first).life == "ready"
    second = start(make_plan("--binds-early", "--reuse-port", "--boots-when", str(booted)))
    problems = []
    for progress in wait_ready(second, PATIENCE):
        problems.append(progress.problem)
        booted.touch()
    assert any("is listened on by cpu-fake (pid" in (one or "") for one in problems[:-1])
    assert "is listened on by cpu-fake (pid" in (problems[-1] or "") and "a part of the requests" in problems[-1]
    for running in (first, second):
        assert stop(running).stopped


def test_a_server_that_listens_and_is_never_healthy_is_not_waited_for_without_end(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow_impatient(monkeypatch)
    monkeypatch.setattr(boot_watch, "GIVE_UP_SECONDS", 4.0)
    running = start(make_plan("--unhealthy"))
    *_, last = wait_ready(running)
    assert last.hopeless and last.silence is not None and last.silence.id == "no-answer"
    assert "/health does not answer with 200" in last.silence.sentence
    assert stop(running, grace_seconds=4).stopped


def test_a_server_that_answers_late_is_ready_after_all(make_plan: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    grow_impatient(monkeypatch)
    running = start(make_plan("--unhealthy"))
    assert running.record.process is not None
    alarmed = False
    for progress in wait_ready(running, PATIENCE):
        if progress.silence is not None and progress.silence.id == "no-answer" and not alarmed:
            alarmed = True
            assert not progress.hopeless and "still asked" in progress.silence.fix
            os.kill(running.record.process.pid, signal.SIGUSR1)
    assert alarmed and progress.life == "ready"
    assert stop(running).stopped


@pytest.mark.fault("a host so busy that every answer takes seconds", "its server is ready all the same")
def test_a_server_whose_answers_take_longer_than_a_second_becomes_ready(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow_impatient(monkeypatch)
    running = start(make_plan("--slow-health", "1.5"))
    assert until_settled(running).life == "ready"
    assert stop(running).stopped


@pytest.mark.fault(
    "a server is stopped by a signal while it loads, and nobody set a time-out", "the wait ends, and says so"
)
def test_a_boot_of_which_nothing_comes_is_not_waited_for_without_end(
    make_plan: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_watch, "GIVE_UP_SECONDS", 5.5)
    running = start(make_plan("--boot-seconds", "3600"))
    assert running.record.process is not None
    os.kill(running.record.process.pid, signal.SIGSTOP)
    *_, last = wait_ready(running)
    assert last.life == "starting" and last.hopeless
    assert "was stopped by a signal" in death(running, last).sentence()
    *_, again = wait_ready(running, 1)
    assert again.timed_out and not again.hopeless, "a time-out that was asked for is kept"
    os.kill(running.record.process.pid, signal.SIGCONT)
    assert stop(running).stopped


def test_a_log_that_vanishes_while_it_is_read_keeps_nobody(make_plan: Plans) -> None:
    running = start(make_plan("--flood-lines", "60000", "--boot-seconds", "3600"))
    log = Path(running.record.log)
    assert wait_for(lambda: log.stat().st_size > 3 << 20)
    watch = BootWatch(running)
    watch.tick()
    for who in members_of(running.record):
        os.kill(who.pid, signal.SIGKILL)
    log.unlink()
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(watch.tick().life), daemon=True)
    assert wait_for(lambda: running.poll() is not None)
    thread.start()
    thread.join(PATIENCE)
    assert seen == ["dead"]


@pytest.mark.parametrize(
    ("host", "listening", "clash"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "::1", False),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("0.0.0.0", "192.168.1.5", True),
        ("0.0.0.0", "::1", False),
        ("", "10.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("::1", "0.0.0.0", False),
        ("::", "10.0.0.1", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("a-name-of-this-host", "10.0.0.1", True),
    ],
)
def test_which_addresses_get_in_each_others_way(host: str, listening: str, clash: bool) -> None:
    assert meets(host, listening) is clash


def test_a_bound_socket_does_not_listen_and_a_listening_one_does(free_port: int) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", free_port))
        assert not anybody_listens(free_port)
        one.listen()
        assert anybody_listens(free_port)
    assert not anybody_listens(free_port)


def test_a_port_that_an_instance_was_promised_is_taken(make_plan: Plans, free_port: int) -> None:
    running = start(make_plan("--no-listen"))
    plan = Session().plan("cpu/tiny-qwen3", {"port": free_port})
    assert any("taken by cpu-fake, which is starting" in finding.message for finding in plan.findings)
    assert stop(running, grace_seconds=4).stopped
