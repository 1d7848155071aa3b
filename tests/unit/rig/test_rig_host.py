from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cockpit.errors import CockpitError
from cockpit.rig.gpus import GpuSurvey, read_gpus
from cockpit.rig.host import first_free_port, is_wsl, port_is_free, port_owner, read_host
from cockpit.rig.rig import read_rig


def bound(*options: int, listen: bool) -> socket.socket:
    held = socket.socket()
    for option in options:
        held.setsockopt(socket.SOL_SOCKET, option, 1)
    held.bind(("127.0.0.1", 0))
    if listen:
        held.listen()
    return held


def test_a_listening_port_is_taken_and_its_owner_is_named() -> None:
    with bound(listen=True) as held:
        port = held.getsockname()[1]
        assert not port_is_free("127.0.0.1", port)
        assert not port_is_free("0.0.0.0", port)
        assert f"(pid {os.getpid()})" in (port_owner(port) or "")
    assert port_is_free("127.0.0.1", port)
    assert port_owner(port) is None


def test_a_vllm_that_has_bound_its_port_and_still_loads_is_noticed() -> None:
    with bound(socket.SO_REUSEADDR, socket.SO_REUSEPORT, listen=False) as held:
        assert not port_is_free("127.0.0.1", held.getsockname()[1])


def test_connections_that_linger_after_a_vllm_do_not_keep_its_port() -> None:
    with bound(socket.SO_REUSEADDR, listen=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # the side that closes first is left in TIME_WAIT
            assert client.recv(1) == b""
    assert port_is_free("127.0.0.1", port)


def test_the_next_port_is_taken_when_the_first_is_not_free() -> None:
    with bound(listen=True) as held:
        port = held.getsockname()[1]
        found = first_free_port("127.0.0.1", port)
        assert found > port
        assert first_free_port("127.0.0.1", port, taken={found}) > found


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid", "\x00", "a" * 300])
def test_a_host_that_is_not_this_machine_is_one_sentence(host: str) -> None:
    with pytest.raises(CockpitError) as error:
        port_is_free(host, 8000)
    assert error.value.fix


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(CockpitError, match="is no port"):
        port_is_free("127.0.0.1", port)


def test_the_end_of_the_port_range_is_an_end() -> None:
    with pytest.raises(CockpitError, match="no free port from 65535"):
        first_free_port("127.0.0.1", 65535, taken={65535})


@pytest.mark.parametrize(
    ("release", "wsl"), [("5.15.167.4-microsoft-standard-WSL2\n", True), ("6.1.0-28-amd64\n", False)]
)
def test_wsl_is_known_by_its_kernel(tmp_path: Path, release: str, wsl: bool) -> None:
    (tmp_path / "osrelease").write_text(release)
    assert is_wsl(tmp_path / "osrelease") is wsl
    assert is_wsl(tmp_path / "nothing") is False


def test_memory_and_processors_are_real() -> None:
    host = read_host()
    assert 0 < host.memory_available_bytes < host.memory_total_bytes
    assert host.cpu_count >= 1


def test_the_rig_has_gpus_or_says_why_not() -> None:
    survey, rig = read_gpus(), read_rig()
    assert bool(survey.gpus) != bool(survey.problem)
    assert (rig.gpus == ()) == (rig.gpu_problem is not None)
    assert isinstance(survey, GpuSurvey)
