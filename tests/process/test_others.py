"""Servers that no cockpit started: found, shown, and ended only when they were named."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from cockpit import paths
from cockpit.cli import main as cli
from cockpit.errors import CockpitError
from cockpit.launch.types import LaunchPlan
from cockpit.rig.host import port_is_free
from cockpit.session import Session
from cockpit.supervisor import process, store
from cockpit.supervisor.adopted import load_adopted, remember
from cockpit.supervisor.foreign import _told_port, find_foreign, port_claims
from cockpit.supervisor.listeners import addresses_of, listening_sockets
from cockpit.supervisor.others import Other, as_record, find_others, instance_at, still_there
from cockpit.supervisor.ready import answers_health
from cockpit.supervisor.spawn import MARK, start
from cockpit.supervisor.stop import stop
from cockpit.this_host import ThisHost, promised_to

from .conftest import PATIENCE, Serve, found, other_of, until_settled, wait_for

Plans = Callable[..., LaunchPlan]


def test_a_foreign_server_is_found_with_its_address_and_its_model(serve: Serve, free_port: int) -> None:
    server = serve("--boot-seconds", "0.1")
    url = f"http://127.0.0.1:{free_port}"
    assert wait_for(lambda: answers_health(url))
    other = found(server.pid)
    assert (other.name, other.kind, other.model) == (f"foreign-{server.pid}", "foreign", "Qwen/Foreign-1B")
    assert other.url == url and str(free_port) in other.what
    server.kill()
    server.wait()
    assert not still_there(other) and other_of(server.pid) is None


def test_one_that_loads_has_the_address_of_its_command_line(serve: Serve, free_port: int) -> None:
    server = serve("--boot-seconds", "3600")
    assert found(server.pid).url == f"http://127.0.0.1:{free_port}"


def row_of(pid: int, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What `cockpit ps --json` says of the server with that pid."""
    capsys.readouterr()
    assert cli.main(["ps", "--json"]) == 0
    return next(row for row in json.loads(capsys.readouterr().out) if row["pid"] == pid)


def test_one_that_does_not_listen_yet_is_starting_and_no_less_protected(
    serve: Serve, free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve("--boot-seconds", "3600")
    other = found(server.pid)
    assert other.is_starting
    row = row_of(server.pid, capsys)
    assert (row["state"], row["kind"], row["answers"]) == ("starting", "foreign", False)
    assert cli.main(["ps"]) == 0
    said = capsys.readouterr()
    assert re.search(rf"foreign-{server.pid} .* starting ", said.out)
    assert f"foreign-{server.pid} does not listen on http://127.0.0.1:{free_port} yet" in said.err
    with pytest.raises(CockpitError, match="was not started by the cockpit"):
        Session().stop(other.name)
    assert server.poll() is None


def test_one_that_listens_is_foreign(serve: Serve, free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve("--boot-seconds", "0.1")
    assert wait_for(lambda: answers_health(f"http://127.0.0.1:{free_port}"))
    row = row_of(found(server.pid).pid or 0, capsys)
    assert (row["state"], row["answers"]) == ("foreign", True)


MEETS = "import socket, sys, time; one = socket.socket(); one.bind(('127.0.0.1', 0)); one.listen(); time.sleep(3600)"


def test_the_port_by_which_its_engine_is_met_is_not_its_address(tmp_path: Path, free_port: int) -> None:
    command = tmp_path / "vllm"
    command.write_text(
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {MEETS!r}])\ntime.sleep(3600)\n",
        encoding="utf-8",
    )
    words = [sys.executable, str(command), "serve", "m", "--port", str(free_port)]
    server = subprocess.Popen(words, start_new_session=True)
    try:
        children = psutil.Process(server.pid).children
        assert wait_for(lambda: any(child.net_connections("tcp") for child in children()))
        other = found(server.pid)
        assert other.url == f"http://127.0.0.1:{free_port}" and other.is_starting
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.parametrize(
    ("options", "port"),
    [
        ([], 8000),
        (["--port", "9000"], 9000),
        (["--port=9000"], 9000),
        (["--port", "0"], None),
        (["--config", "a.yaml"], None),
        (["--config", "a.yaml", "--port", "9000"], 9000),
        (["--headless"], None),
        (["--uds", "/run/vllm.sock"], None),
    ],
)
def test_the_port_that_a_command_line_tells(options: list[str], port: int | None) -> None:
    assert _told_port(["m", *options]) == port


def test_a_program_that_becomes_a_server_is_found_under_the_pid_that_it_had(vllm: Path, free_port: int) -> None:
    words = f"read go; exec {vllm} serve Qwen/Late-1B --port {free_port} --boot-seconds 3600"
    shell = subprocess.Popen(["sh", "-c", words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert other_of(shell.pid) is None
        assert shell.stdin is not None
        shell.stdin.close()
        assert found(shell.pid).model == "Qwen/Late-1B"
    finally:
        shell.kill()
        shell.wait()


def test_looking_for_servers_looks_at_no_sockets_but_theirs_and_once_at_the_processes(
    serve: Serve, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = {serve("--boot-seconds", "0.1").pid, serve("--boot-seconds", "3600").pid}
    assert wait_for(lambda: answers_health(f"http://127.0.0.1:{free_port}"))
    for pid in pids:
        found(pid)
    looks: list[str] = []
    table = process._table
    monkeypatch.setattr(process, "_table", lambda: looks.append("processes") or table())
    monkeypatch.setattr(psutil, "net_connections", lambda **_: looks.append("sockets of all") or [])
    urls = {one.process.pid: one.url for one in find_foreign()}
    assert {urls[pid] for pid in pids} == {f"http://127.0.0.1:{free_port}"} and looks == ["processes"]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "127.8.9.10", "::1", "::", "::ffff:127.0.0.1"])
def test_a_listening_address_is_read_as_psutil_reads_it(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener, socket.socket(family) as bound:
        try:
            listener.bind((host, 0))
            bound.bind((host, 0))
        except OSError:
            pytest.skip("this host has no IPv6")
        listener.listen()
        assert addresses_of(1, {}) in ([], None) and addresses_of(2**22 + 1, {}) is None
        addresses = addresses_of(os.getpid(), listening_sockets())
        own = [one.laddr for one in psutil.Process().net_connections(kind="tcp") if one.status == "LISTEN"]
        assert addresses == [(one.ip, one.port) for one in own] == [listener.getsockname()[:2]]


def test_one_whose_port_and_model_stand_in_a_file_has_neither_until_it_listens(tmp_path: Path) -> None:
    sleeper = tmp_path / "vllm"
    sleeper.write_text("import time; time.sleep(3600)", encoding="utf-8")
    server = subprocess.Popen([sys.executable, str(sleeper), "serve", "--config", "server.yaml"])
    try:
        other = found(server.pid)
        assert other.model is None and other.url is None
        assert server.pid not in {claim.pid for claim in port_claims()}
    finally:
        server.kill()
        server.wait()


def test_two_that_load_on_one_port_are_both_listed(serve: Serve) -> None:
    pids = {serve("--boot-seconds", "3600").pid for _ in range(2)}
    assert wait_for(lambda: pids <= {one.pid for one in find_others([])[0]})


@pytest.mark.fault("another vLLM loads and has not bound its port yet", "its port is not given away")
def test_the_port_of_a_vllm_that_loads_is_taken(
    serve: Serve, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert free_port not in {claim.port for claim in port_claims()}
    server = serve("--boot-seconds", "3600")
    found(server.pid)
    assert port_is_free("127.0.0.1", free_port), "nothing has bound it yet"
    assert promised_to("127.0.0.1", free_port) == f"vllm (pid {server.pid})"
    monkeypatch.setattr("cockpit.this_host.FIRST_PORT", free_port)
    assert ThisHost({}, "127.0.0.1", described=False).free_port > free_port
    assert ThisHost({}, "127.0.0.9", described=False).free_port > free_port, "it is to listen on every address"
    plan = Session().plan("cpu/tiny-qwen3", {"port": free_port})
    assert any(f"(pid {server.pid}), which is starting" in finding.message for finding in plan.findings)


def test_an_instance_on_record_is_not_foreign_and_one_of_another_home_is_its_homes(
    serve: Serve, vllm: Path, make_plan: Plans, free_port: int
) -> None:
    plan = make_plan(argv=(str(vllm), "serve", "m", "--port", str(free_port)))
    running = start(plan)
    assert running.record.process is not None
    until_settled(running)
    own = running.record.process.pid
    assert other_of(own) is None and own not in {one.process.pid for one in find_foreign({own})}
    # its record is gone, say by hand: then it is nobody's, and must be seen
    store.remove(running.record)
    assert other_of(own) is not None
    store.save(running.record)
    assert stop(running).stopped
    elsewhere = serve("--boot-seconds", "3600", env={MARK: "/nowhere/instances/x.json"})
    assert wait_for(lambda: "serve" in Path(f"/proc/{elsewhere.pid}/cmdline").read_text())
    assert other_of(elsewhere.pid) is None
    server = serve("--boot-seconds", "3600", env={MARK: str(paths.instances_home() / "gone.json")})
    assert found(server.pid).kind == "foreign"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_the_url_of_an_instance_on_record_is_not_adopted(make_plan: Plans, free_port: int, name: str) -> None:
    running = start(make_plan())
    until_settled(running)
    own, url = running.record.name, f"http://{name}:{free_port}"
    with pytest.raises(CockpitError, match=f"is {own}, which the cockpit started") as caught:
        Session().adopt(f"{url}/v1")
    assert own in caught.value.fix and not load_adopted()[0]
    # An address that was adopted before, of a server that is gone, shows the instance alone.
    remember(url, "m", "earlier")
    assert [one.name for one in find_others(store.load_all()[0])[0] if one.url == url] == []
    assert stop(running).stopped
    assert "earlier" in [one.name for one in find_others(store.load_all()[0])[0]]


def test_an_address_of_this_host_meets_what_listens_on_all_of_them() -> None:
    record = as_record(Other(name="a", kind="foreign", what="", url="http://127.0.0.1:8000"))
    record = msgspec.structs.replace(record, process=process.identity(os.getpid()))
    own = socket.gethostname().lower()
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        for bound, host, met in (
            ("0.0.0.0", own, True),
            ("0.0.0.0", "elsewhere.example", False),
            ("127.0.0.1", "elsewhere.example", False),
            ("127.0.0.1", "localhost", True),
            ("10.1.2.3", "127.0.0.1", False),
        ):
            one = msgspec.structs.replace(record, host=bound, port=port)
            assert (instance_at(f"http://{host}:{port}", [one]) is one) == met, (bound, host)
            assert instance_at(f"http://{host}:1", [one]) is None
    assert instance_at(f"http://127.0.0.1:{port}", [msgspec.structs.replace(record, port=port)]) is None


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "sleep 3600; vllm serve m"],
        ["tail", "-f", "/dev/null", "vllm", "serve"],
        [sys.executable, "-c", "import time; time.sleep(3600)", "vllm", "serve"],
    ],
)
def test_a_command_that_only_names_vllm_is_none(argv: list[str]) -> None:
    one = subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert wait_for(lambda: b"vllm" in Path(f"/proc/{one.pid}/cmdline").read_bytes())
        assert one.pid not in {server.process.pid for server in find_foreign()}
    finally:
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def test_a_foreign_server_is_stopped_only_when_its_process_is_named(
    serve: Serve, free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve("--boot-seconds", "0.1", "--fork-children", "2")
    assert wait_for(lambda: answers_health(f"http://127.0.0.1:{free_port}"))
    name = found(server.pid).name
    for words in ((), ("--foreign", "1"), ("--foreign", str(os.getpid()))):
        assert cli.main(("stop", name, *words)) == 2
        assert f"--foreign {server.pid}" in capsys.readouterr().err
    assert server.poll() is None
    family = process.children_of(found(server.pid).processes[0])
    assert len(family) == 3
    assert cli.main(("stop", name, "--foreign", str(server.pid))) == 0
    assert server.wait(PATIENCE) == 0
    assert not any(process.is_alive(who) for who in family)


def test_secrets_in_a_foreign_command_line_are_not_shown(serve: Serve) -> None:
    server = serve("--boot-seconds", "3600", "--secret-line", "x", model="m")
    assert found(server.pid).what.startswith("vllm serve m")
    other = serve("--boot-seconds", "3600", env={}, model="--api-key=hidden-key-here")
    assert "hidden-key-here" not in found(other.pid).what
