"""What the fake ``vllm`` command of the screen's tests runs: the fake server with figures that move.

Called as ``vllm serve MODEL --port N …``. A slug's ``env`` steers it: FAKE_VLLM holds further options of
tests/fakes/fake_server.py, FAKE_LOG names a file whose bytes go to the log as they are, FAKE_FITS is the longest
context with which it boots.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fakes"))
import fake_server

CAPACITY_TOKENS = 2_097_152
PREFILL, CACHED, DECODE = 2500, 1000, 90
"""Tokens a second."""
FLAGS = (
    *("--host", "--port", "--served-model-name", "--load-format", "--max-model-len", "--max-num-seqs"),
    *("--enforce-eager", "--gpu-memory-utilization", "--kv-cache-dtype"),
)


def metrics(seconds: float) -> str:
    """/metrics of a server that has worked at the same speed for so long."""
    labels = 'engine="0",model_name="fake"'
    pool = f'kv_cache_size_tokens="{CAPACITY_TOKENS}",kv_cache_max_concurrency="1024.0"'
    lines = [
        f"vllm:num_requests_running{{{labels}}} 2",
        f"vllm:num_requests_waiting{{{labels}}} 1",
        f"vllm:kv_cache_usage_perc{{{labels}}} 0.25",
        f"vllm:prompt_tokens_total{{{labels}}} {(PREFILL + CACHED) * seconds}",
        f'vllm:prompt_tokens_by_source_total{{{labels},source="local_compute"}} {PREFILL * seconds}',
        f'vllm:prompt_tokens_by_source_total{{{labels},source="local_cache_hit"}} {CACHED * seconds}',
        f"vllm:prompt_tokens_cached_total{{{labels}}} {CACHED * seconds}",
        f"vllm:generation_tokens_total{{{labels}}} {DECODE * seconds}",
        f"vllm:cache_config_info{{{labels},{pool}}} 1.0",
    ]
    return "\n".join(lines) + "\n"


class Handler(fake_server.Handler):
    """Counts from the start of the server on."""

    began = time.monotonic()

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.reply(200, "text/plain", metrics(time.monotonic() - self.began).encode())
        else:
            super().do_GET()


def die_for_want_of_memory(length: int, fits: str) -> None:
    """In the words of vLLM 0.32."""
    fake_server.log("version 0.32.0")
    fake_server.log("Starting to load model /models/fake...", "Worker")
    time.sleep(0.3)
    sys.stdout.write(
        f"(EngineCore pid=7) ERROR 11-29 20:00:00 [core.py:1] ValueError: To serve at least one request with the "
        f"model's max seq len ({length}), (0.50 GiB KV cache is needed, which is larger than the available KV cache "
        f"memory (0.25 GiB). Based on the available memory, the estimated maximum model length is {fits}. Try "
        "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {'EngineCore': 1}\n"
    )
    sys.exit(1)


def main() -> None:
    words = sys.argv[1:]
    if words[:1] != ["serve"]:
        sys.exit("vllm: error: this one can only serve")
    if "--help=all" in words:
        sys.stdout.write("usage: vllm serve [options]\n\noptions:\n")
        sys.stdout.writelines(f"  {flag} VALUE  A flag.\n" for flag in FLAGS)
        return
    if "FAKE_LOG" in os.environ:
        sys.stdout.buffer.write(Path(os.environ["FAKE_LOG"]).read_bytes())
        sys.stdout.flush()
    length = int(words[words.index("--max-model-len") + 1]) if "--max-model-len" in words else 2048
    if length > int(os.environ.get("FAKE_FITS", length)):
        die_for_want_of_memory(length, os.environ["FAKE_FITS"])
    port = words[words.index("--port") + 1]
    sys.argv = ["fake_server", "--port", port, *os.environ.get("FAKE_VLLM", "").split()]
    fake_server.Handler = Handler
    fake_server.main()


if __name__ == "__main__":
    main()
