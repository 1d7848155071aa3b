"""The command as users run it: a process of its own, with pipes, terminals and closed streams."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit import paths

from .conftest import FAKE_SERVER, pids_of_session

COCKPIT = [sys.executable, "-m", "cockpit"]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def no_vllm_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    monkeypatch.delenv("VLLM_API_KEY", raising=False)


def cockpit(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*COCKPIT, *words], capture_output=True, text=True, timeout=600, check=False, **options)
    assert_clean(done.stdout + done.stderr)
    return done


def own_rows() -> list[Any]:
    """`cockpit ps` without what else serves on this host."""
    rows = json.loads(cockpit("ps", "--json").stdout)
    return [row for row in rows if row["kind"] == "own"]


def assert_clean(text: str) -> None:
    for trouble in ("Traceback", "bug in cockpit", "Exception ignored"):
        assert trouble not in text, text


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run ``line`` in bash with ``$COCKPIT`` as the command; stdout ends with the exit codes of its pipeline."""
    done = subprocess.run(
        ["bash", "-c", f'cockpit() {{ "{sys.executable}" -m cockpit "$@"; }}; {line}; echo "${{PIPESTATUS[*]}}"'],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert_clean(done.stdout + done.stderr)
    return done


def test_listing_slugs_loads_no_screen_and_no_client() -> None:
    watch = (
        "import sys; from cockpit.cli.main import main; code = main(['slugs', '--json']); "
        "heavy = {'textual', 'rich', 'httpx', 'prometheus_client'}; "
        "print(*sorted(heavy & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)
    assert done.stderr.split() == []


def test_no_verb_without_a_screen_loads_textual() -> None:
    watch = (
        "import sys; from cockpit.cli.main import main\n"
        "for verb in ('check', 'plan', 'serve'): assert main([verb, 'cpu/tiny-qwen3']) == 2\n"
        "for verb in ('ps', 'engines'): assert main([verb]) == 0\n"
        "sys.exit(bool({'textual', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_slug_ends_with_2_and_the_nearest_name() -> None:
    done = cockpit("serve", "cpu/tiny-qwen")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cockpit: no slug is named 'cpu/tiny-qwen'. Did you mean cpu/tiny-qwen3?\n"


def test_bytes_that_are_not_utf8_are_refused_like_any_word() -> None:
    done = cockpit("plan", "vllm/dual", "--set", b"port=\xff\x1b[2J", "--json")  # type: ignore[arg-type]
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["title"].endswith("cannot be used")
    assert "\x1b" not in done.stderr


def test_a_pipe_that_closes_early_is_no_error() -> None:
    done = shell("cockpit slugs --json | head -1")
    assert (done.stdout, done.stderr) == ("[\n0 0\n", "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cockpit slugs | true", "0"),
        ("cockpit --help | true", "0"),
        ("cockpit check nope --json | true", "2"),
        ("cockpit check nope 2>&1 | true", "2"),
    ],
)
def test_a_reader_that_never_reads_changes_no_exit_code(line: str, code: str) -> None:
    # The reader is gone before the first byte: it exits at once and the pipe is written a moment later.
    done = shell(line.replace("cockpit ", "{ sleep 0.1; cockpit ", 1).replace(" |", "; } |", 1))
    assert done.stdout == f"{code} 0\n"


def test_a_full_disk_is_one_sentence() -> None:
    done = shell("cockpit slugs > /dev/full")
    assert done.stdout == "1\n"
    assert done.stderr == (
        "cockpit: the output cannot be written: No space left on device. Send it elsewhere, or make room.\n"
    )


def test_closed_streams_do_no_harm() -> None:
    assert shell("cockpit check nope >&- 2>&-").stdout == "2\n"
    done = shell("cockpit <&- >&-")
    assert done.stdout == "2\n"
    assert "the screen needs a terminal" in done.stderr


def test_an_ascii_terminal_gets_question_marks() -> None:
    listed = cockpit("best", "qwen", "27b", "--rig", "2x3090", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert listed.returncode == 0
    assert "vllm/dual" in listed.stdout
    assert "?" in listed.stdout


def test_without_a_terminal_the_screen_is_refused() -> None:
    done = cockpit(stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cockpit: the screen needs a terminal.")


@pytest.mark.parametrize(("columns", "rows"), [(79, 24), (80, 23)])
def test_a_small_terminal_is_refused_with_its_size(columns: int, rows: int) -> None:
    outer, inner = pty.openpty()
    try:
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        done = subprocess.run(COCKPIT, stdin=inner, stdout=inner, stderr=subprocess.PIPE, timeout=600, check=False)
        os.set_blocking(outer, False)
        with pytest.raises(BlockingIOError):
            os.read(outer, 1)  # nothing was drawn
    finally:
        os.close(inner)
        os.close(outer)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        f"cockpit: the terminal has {columns}x{rows} cells, the screen needs 80x24. Enlarge the window or use a "
        "smaller font; the verbs (`cockpit --help`) work at any size.\n"
    )


@pytest.fixture
def engine(tmp_path: Path) -> Callable[[str], str]:
    """An environment with a CPU vLLM whose ``vllm`` command runs the given Python."""

    def make(body: str) -> str:
        root = tmp_path / "engine"
        site = root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (site / "vllm").mkdir(parents=True)
        (site / "vllm" / "__init__.py").write_text("raise SystemExit('it was imported')\n")
        (site / "vllm-0.32.0+cpu.dist-info").mkdir()
        metadata = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
        (site / "vllm-0.32.0+cpu.dist-info" / "METADATA").write_text(metadata)
        base = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
        (root / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
        (root / "bin").mkdir()
        (root / "bin" / "python").symlink_to(base)
        command = root / "bin" / "vllm"
        command.write_text(f"#!{root}/bin/python\n{body}")
        command.chmod(0o755)
        return str(command)

    return make


DIES = """\
import sys
print("Loading the model")
sys.stderr.write("ValueError: the weights are \\x1b[31mred\\x1b[0m\\n")
sys.exit(3)
"""


def test_a_server_that_dies_while_it_starts_ends_with_1_its_code_and_its_last_lines(
    engine: Callable[[str], str],
) -> None:
    done = cockpit("serve", "cpu/tiny-qwen3", "--engine", engine(DIES), "--wait", "--json")
    assert done.returncode == 1
    assert "  | ValueError: the weights are red\n" in done.stderr
    assert "cockpit: cpu-tiny-qwen3 died while it started, exit code 3" in done.stderr.splitlines()[-1]
    assert "\x1b" not in done.stderr
    told = json.loads(done.stdout)
    assert (told["state"], told["exit_code"], told["boot_seconds"]) == ("dead", 3, None)
    assert told["last_lines"][-1] == "ValueError: the weights are red"
    (listed,) = own_rows()
    assert (listed["instance"], listed["state"], listed["exit_code"]) == ("cpu-tiny-qwen3", "dead", 3)
    assert pids_of_session(listed["pid"]) == []


def test_a_state_folder_that_is_a_file_starts_nothing(engine: Callable[[str], str], homes: Path) -> None:
    marker = homes / "it-ran"
    command = engine(f"open({str(marker)!r}, 'w')\n")
    (homes / "state").write_text("")
    done = cockpit("serve", "cpu/tiny-qwen3", "--engine", command, "--wait")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cockpit: cannot write to {paths.state_home()}")
    assert not marker.exists()


SERVES = f"""\
import os, sys
port = sys.argv[sys.argv.index("--port") + 1]
os.execv(sys.executable, [sys.executable, {str(FAKE_SERVER)!r}, "--port", port])
"""


def test_serve_ps_top_logs_and_stop_speak_json_from_start_to_end(
    engine: Callable[[str], str], free_port: int
) -> None:
    words = ["serve", "cpu/tiny-qwen3", "--engine", engine(SERVES), "--set", f"port={free_port}"]
    started = cockpit(*words, "--wait", "--json")
    assert started.returncode == 0, started.stderr
    served = json.loads(started.stdout)
    assert served["instance"] == "cpu-tiny-qwen3"
    assert served["url"] == f"http://127.0.0.1:{free_port}"
    assert (served["state"], served["diagnosis"]) == ("ready", None)
    assert served["boot_seconds"] > 0 and served["beside"] == [] and "already" not in started.stderr
    assert served["kv"] == {"capacity_tokens": 2097152, "max_concurrency": 1024.0}
    assert all(set(stage) == {"id", "seconds"} for stage in served["stages"])
    try:
        (listed,) = own_rows()
        assert (listed["pid"], listed["state"], listed["gpus"]) == (served["pid"], "ready", [])
        assert listed["log"] == served["log"]
        figures = json.loads(cockpit("top", "cpu/tiny-qwen3", "--once", "--seconds", "0.3", "--json").stdout)
        assert figures["requests"]["running"] == 0
        assert figures["state"] == "ready"
        logged = json.loads(cockpit("logs", "cpu-tiny-qwen3", "-n", "3", "--json").stdout)
        assert len(logged["lines"]) == 3
        taken = cockpit(*words)
        assert taken.returncode == 2
        assert f"port {free_port} is taken by " in taken.stderr
        assert f"(pid {served['pid']})" in taken.stderr
        again = cockpit(*words[:4], "--json")
        assert again.returncode == 0 and json.loads(again.stdout)["beside"] == ["cpu-tiny-qwen3"]
        (line,) = [one for one in again.stderr.splitlines() if "already" in one]
        assert served["instance"] in line and served["url"] in line
        assert cockpit("stop", json.loads(again.stdout)["instance"]).returncode == 0
    finally:
        stopped = cockpit("stop", "cpu-tiny-qwen3", "--json")
    assert stopped.returncode == 0
    result = json.loads(stopped.stdout)
    assert (result["instance"], result["stopped"], result["orphans"]) == ("cpu-tiny-qwen3", True, [])
    assert result["seconds"] >= 0
    assert pids_of_session(served["pid"]) == []
    assert own_rows() == []
