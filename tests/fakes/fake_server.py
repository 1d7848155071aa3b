"""A small real HTTP server that behaves like a ``vllm serve`` process; stdlib only, run as a script.

It logs like vLLM, forks children like its engine and workers, refuses connections until it has booted, and can
misbehave: die, ignore signals, flood its log, hang, leave shared memory, or scatter its children over sessions.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def log(text: str, process: str = "APIServer") -> None:
    stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(time.time() + slept()))
    sys.stdout.write(f"({process} pid={os.getpid()}) INFO {stamp} [fake_server.py:1] {text}\n")
    sys.stdout.flush()


def slept() -> float:
    """Seconds that a test says its host was suspended, as nobody can suspend the real one."""
    try:
        return float(Path(os.environ["FAKE_SLEPT"]).read_text(encoding="ascii") or 0)
    except (KeyError, OSError):
        return 0.0


segments: list[mmap.mmap] = []


def leaky_segment() -> mmap.mmap:
    """A segment as multiprocessing makes them, which nobody will unlink."""
    name = f"psm_{os.urandom(4).hex()}"
    descriptor = os.open(f"/dev/shm/{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.ftruncate(descriptor, 4096)
    held = mmap.mmap(descriptor, 4096)
    os.close(descriptor)
    log(f"holds {name}", "Worker")
    return held


def fork_children(count: int, own_session: bool, stubborn: bool, segment: bool) -> list[int]:
    """Children that live until they are signalled, titled as vLLM's are; a grandchild hangs below the first."""
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        if own_session:
            os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        title(f"VLLM::EngineCore_DP{number}")
        if number == 0 and os.fork() == 0:
            title("VLLM::Worker_TP0")
        if segment:
            segments.append(leaky_segment())
        while True:
            time.sleep(60)
    return pids


def title(text: str) -> None:
    """Name the process as setproctitle would; the kernel keeps 15 characters."""
    ctypes.CDLL(None).prctl(15, text.encode(), 0, 0, 0)


def die_with_engine(engines: list[int]) -> None:
    """What the API server of vLLM does when an engine is gone: says so and ends."""
    while True:
        for pid in engines:
            if os.waitpid(pid, os.WNOHANG)[0]:
                sys.stderr.write(
                    f"(APIServer pid={os.getpid()}) ERROR {time.strftime('%m-%d %H:%M:%S')} [async_llm.py:906] "
                    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
                    "See stack trace (above) for the root cause.\n"
                )
                sys.stderr.flush()
                os._exit(0 if Handler.listens else 1)
        time.sleep(0.05)


class Handler(BaseHTTPRequestHandler):
    """Answers what the cockpit asks."""

    ready_at = 0.0
    hangs_when: Path | None = None
    health_takes = 0.0
    listens = False
    """A vLLM that was ready ends with exit code 0 all the same."""

    def do_GET(self) -> None:
        if self.hangs_when is not None and self.hangs_when.exists():
            time.sleep(3600)
        ready = time.monotonic() >= self.ready_at
        if self.path == "/health":
            time.sleep(self.health_takes)
            self.reply(200 if ready else 503, "text/plain", b"")
        elif self.path == "/v1/models":
            body = json.dumps({"object": "list", "data": [{"id": "fake", "max_model_len": 2048}]})
            self.reply(200, "application/json", body.encode())
        elif self.path == "/metrics":
            self.reply(200, "text/plain", b'vllm:num_requests_running{engine="0",model_name="fake"} 0.0\n')
        else:
            self.reply(404, "text/plain", b"not found")

    def reply(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def chat() -> None:
    """Whole lines, one write each, as a busy server's access log."""
    number = 0
    while True:
        os.write(1, b"".join(b"INFO:     127.0.0.1 - request %08d 200 OK\n" % (number + n) for n in range(200)))
        number += 200
        time.sleep(0.02)


def die(code: int, quietly: bool) -> None:
    if quietly:
        os._exit(code)
    log("Starting to load model /models/fake...", "Worker")
    sys.stderr.write(f"(Worker pid={os.getpid()}) ValueError: No available memory for the cache blocks.\n")
    sys.stderr.write(f"(APIServer pid={os.getpid()}) RuntimeError: Engine core initialization failed.\n")
    sys.stderr.flush()
    os._exit(code)


def count_sigints(*_: object) -> None:
    """The first cancels at an await that does not come, the second is swallowed with its exception."""
    sigints.append(None)
    os.write(1, b"SIGINT %d\n" % len(sigints))
    if len(sigints) == 3:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


sigints: list[None] = []


def bound_server(port: int) -> ThreadingHTTPServer:
    """The listener, or the end that vLLM comes to without one."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        sys.stderr.write(f"(APIServer pid={os.getpid()}) OSError: [Errno {error.errno}] {error.strerror}\n")
        sys.stderr.flush()
        os._exit(1)


def early_socket(port: int, reuse_port: bool) -> socket.socket:
    """What vLLM binds at the start of its boot and listens on at the end."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse_port:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    log("has bound its port")
    return bound


def listening_server(bound: socket.socket) -> ThreadingHTTPServer | None:
    """None where another listens already, which nobody notices under uvloop."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = bound
    try:
        server.server_activate()
    except OSError:
        return None
    return server


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="such as `serve MODEL`")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--boot-seconds", type=float, default=0.3)
    parser.add_argument("--boots-when", type=Path, help="the boot goes on until there is such a file")
    parser.add_argument("--die-at", type=float, help="seconds after the start at which the process ends")
    parser.add_argument("--exit-code", type=int, default=1)
    parser.add_argument("--die-quietly", action="store_true", help="without a last word in the log")
    parser.add_argument("--ignore-sigterm", action="store_true", help="swallow SIGTERM and SIGINT")
    parser.add_argument("--swallow-sigterm-while-loading", action="store_true", help="as vLLM does")
    parser.add_argument("--importing", action="store_true", help="swallow SIGINT, as a library does that is imported")
    parser.add_argument(
        "--third-sigint", action="store_true", help="ends at the third SIGINT, as a vLLM that loads does"
    )
    parser.add_argument("--flood-lines", type=int, default=0)
    parser.add_argument("--fork-children", type=int, default=0)
    parser.add_argument("--fork-setsid", action="store_true", help="each child leads a session of its own")
    parser.add_argument("--stubborn-children", action="store_true", help="children ignore SIGTERM")
    parser.add_argument("--shared-memory", action="store_true", help="children hold a segment and leak it")
    parser.add_argument("--dies-with-engine", action="store_true", help="ends when a child does, as vLLM does")
    parser.add_argument("--hangs-when", type=Path, help="no request is answered once there is such a file")
    parser.add_argument("--secret-line", help="a line of the log, as given")
    parser.add_argument("--chatty", action="store_true", help="ten thousand lines a second, for ever")
    parser.add_argument("--binds-early", action="store_true", help="bind at the start and listen at the end, as vLLM")
    parser.add_argument("--reuse-port", action="store_true", help="with --binds-early: SO_REUSEPORT, as vLLM 0.20")
    parser.add_argument("--unhealthy", action="store_true", help="answers /health with 503 until a SIGUSR1")
    parser.add_argument("--slow-health", type=float, default=0.0, help="seconds that an answer to /health takes")
    parser.add_argument("--no-listen", action="store_true", help="never open the port")
    return parser.parse_args()


def ignore_signals(args: argparse.Namespace) -> None:
    if args.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    elif args.swallow_sigterm_while_loading:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif args.third_sigint:
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGINT, count_sigints)
    elif args.importing:
        signal.signal(signal.SIGINT, lambda *_: None)


def boot(args: argparse.Namespace) -> socket.socket | None:
    """Everything before the port listens, with what goes wrong beside it; a socket that is bound meanwhile."""
    log("       █     █     █▄   ▄█")
    log(" ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0")
    log("Resolved architecture: Qwen3ForCausalLM")
    if args.secret_line:
        log(args.secret_line)
    engines = fork_children(args.fork_children, args.fork_setsid, args.stubborn_children, args.shared_memory)
    if args.dies_with_engine:
        threading.Thread(target=die_with_engine, args=(engines,), daemon=True).start()
    if args.chatty:
        threading.Thread(target=chat, daemon=True).start()
    Handler.hangs_when = args.hangs_when
    if args.die_at is not None:
        threading.Timer(args.die_at, die, (args.exit_code, args.die_quietly)).start()
    bound = early_socket(args.port, args.reuse_port) if args.binds_early else None
    for number in range(args.flood_lines):
        sys.stdout.write(f"(EngineCore pid={os.getpid()}) DEBUG 11-29 20:00:00 [flood.py:1] line {number} of it\n")
    time.sleep(args.boot_seconds)
    while args.boots_when is not None and not args.boots_when.exists():
        time.sleep(0.02)
    return bound


def serve(args: argparse.Namespace, bound: socket.socket | None) -> None:
    """Listen, say so, answer."""
    if args.no_listen:
        while True:
            time.sleep(60)
    server = bound_server(args.port) if bound is None else listening_server(bound)
    if args.unhealthy:
        Handler.ready_at = float("inf")
        signal.signal(signal.SIGUSR1, lambda *_: setattr(Handler, "ready_at", 0.0))
    Handler.health_takes = args.slow_health
    log("Starting to load model /models/fake...", "Worker")
    log("Model loading took 0.25 GiB memory and 0.100000 seconds", "Worker")
    log("Available KV cache memory: 1.5 GiB", "Worker")
    log(
        "CPU KV cache size: 2,097,152 tokens, Maximum concurrency for 2,048 tokens per request: 1024.00x",
        "EngineCore",
    )
    sys.stderr.write("INFO:     Application startup complete.\n")
    sys.stderr.flush()
    Handler.listens = True
    if not args.ignore_sigterm:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while server is None:
        time.sleep(60)
    server.serve_forever(poll_interval=0.05)


def main() -> None:
    args = arguments()
    ignore_signals(args)
    serve(args, boot(args))


if __name__ == "__main__":
    main()
