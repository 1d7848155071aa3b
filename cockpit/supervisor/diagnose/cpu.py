"""What only the CPU build of vLLM refuses."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, plain_kv, reason, say


def _one_worker(seen: Evidence) -> list[Fix]:
    one = Fix(text="Run it as one worker: without tensor or pipeline parallel.", set={"tensor_parallel": 1})
    return [one, Fix(text="Or name the cores of each worker: VLLM_CPU_OMP_THREADS_BIND=0-7|8-15.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="cpu-binding",
        patterns=(r"Not enough allowed NUMA nodes to bind threads of (?P<workers>\d+) local CPUWorkers",),
        versions="0.26 to 0.33, CPU",
        explain=say(
            "The CPU build gives each of the {workers} workers a NUMA node of its own, and there are fewer.",
            "The CPU build gives each worker a NUMA node of its own, and there are fewer.",
        ),
        fixes=_one_worker,
    ),
    Symptom(
        id="cpu-binding",
        patterns=(
            r"doesn't support auto CPU binding",
            r"VLLM_CPU_OMP_THREADS_BIND",
            r"sched_setaffinity",
            r"NUMA binding (?:was requested|requires)",
        ),
        versions="0.8 to 0.33, CPU",
        explain=lambda seen: f"The server's threads cannot be bound to cores as the command asks: {reason(seen)}.",
        fixes=do(
            Fix(text="Let vLLM choose the cores.", env={"VLLM_CPU_OMP_THREADS_BIND": None}),
            "In a container the cores must be among those that it was given (--cpuset-cpus).",
        ),
    ),
    Symptom(
        id="cpu-bf16",
        patterns=(r"BF16 weight prepack needs the cpu support", r"bfloat16 is not supported on (?:this )?CPU"),
        versions="any, CPU",
        explain=say("This processor has no instructions for bfloat16, which the model's weights are in."),
        fixes=do(added("dtype=float32", "Add --dtype float32: it takes twice the memory.")),
    ),
    Symptom(
        id="cpu-kv-type",
        patterns=(r"FP8 KV cache (?:on CPU requires|requires head_size|is not yet supported)[^\n]{0,60}",),
        versions="0.28 to 0.33, CPU",
        explain=lambda seen: f"The CPU build cannot store this model's KV in 8 bits here: {reason(seen)}.",
        fixes=plain_kv,
    ),
)
