"""Run with an engine's Python: JSON of checkpoint folders and further settings → ``engine.log`` in each folder.

vLLM is imported once, and each engine made in a process of its own, as a server's is, as far as its KV cache.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.models import registry
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.llm_engine import LLMEngine


def make(folder: str, further: dict[str, Any]) -> None:
    """Make the engine, which logs to the folder."""
    log = os.open(Path(folder) / "engine.log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    arguments = EngineArgs(
        model=folder,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=4096,
        max_num_seqs=8,
        distributed_executor_backend="uni",
        **further,
    )
    # Some defaults depend on who asks.
    LLMEngine.from_engine_args(arguments, UsageContext.OPENAI_API_SERVER, enable_multiprocessing=False)


def main() -> None:
    # vLLM imports itself anew to look at a class it does not know yet; there is no CUDA here to keep off.
    registry._run_in_subprocess = lambda look: look()  # type: ignore[assignment]
    for folder, further in json.load(sys.stdin).items():
        child = os.fork()
        if child == 0:
            try:
                make(folder, further)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
