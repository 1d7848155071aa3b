"""A server that answers as a ready vLLM does, with the /metrics page of a real one, and logs at a given pace.

python tests/bench/page_server.py --port 8123 --page FILE --lines-a-minute 200000
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PIECES_A_SECOND = 20


class Handler(BaseHTTPRequestHandler):
    """The page for /metrics, and 200 for everything else."""

    protocol_version = "HTTP/1.1"
    page = b""

    def do_GET(self) -> None:
        """Answer."""
        body = self.page if self.path == "/metrics" else b"{}"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def flood(lines_a_minute: int) -> None:
    """Log lines as vLLM writes them, evenly over the time: of answered requests, of throughput, and others."""
    count = max(1, lines_a_minute // 60 // _PIECES_A_SECOND)
    kinds = (
        '(APIServer pid=1) INFO:     127.0.0.1:{0} - "POST /v1/completions HTTP/1.1" 200 OK\n',
        "(APIServer pid=1) INFO 11-29 20:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: {0}.0 tokens/s, "
        "Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, GPU KV cache usage: 0.1%\n",
        "(EngineCore pid=2) INFO 11-29 20:00:00 [core.py:1] one of many lines, number {0}\n",
    )
    number = 0
    while True:
        sys.stdout.write("".join(kinds[at % len(kinds)].format(at) for at in range(number, number + count)))
        sys.stdout.flush()
        number += count
        time.sleep(1 / _PIECES_A_SECOND)


def main() -> None:
    """Serve until signalled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--lines-a-minute", type=int, default=0)
    arguments = parser.parse_args()
    Handler.page = arguments.page.read_bytes()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if arguments.lines_a_minute:
        threading.Thread(target=flood, args=(arguments.lines_a_minute,), daemon=True).start()
    sys.stderr.write("INFO:     Application startup complete.\n")
    sys.stderr.flush()
    ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
