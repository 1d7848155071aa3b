"""GPU memory that ran out in a part of the server which has a setting of its own."""

from __future__ import annotations

from cockpit.supervisor.diagnose.memory import OUT_OF_MEMORY
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import (
    do,
    fewer_sequences,
    joined,
    less_utilization,
    no_vision,
    say,
    shorter_context,
    smaller_model,
    without,
)

_WARMS_UP = r":(?:kernel_warmup|\w*autotun\w*|choose_one|warmup_kernels|_warmup_\w+)$"
_CAPTURES = r":\w*capture\w*$"
_ADAPTERS = r":(?:create_lora_weights|load_lora_model|create_lora_manager|_create_lora_modules)$"
_ENCODES = r":(?:_execute_mm_encoder|embed_multimodal|get_multimodal_embeddings)$"
_POOL = r":(?:_allocate_kv_cache\w*|initialize_kv_cache\w*|initialize_from_config)$"


def _quantizes_itself(seen: Evidence) -> bool:
    return seen.arguments.chosen("quantization") and seen.incident.stage in ("config", "weights")


def _smaller_images(seen: Evidence) -> list[Fix]:
    text = "Take smaller or fewer images: --limit-mm-per-prompt, --mm-processor-kwargs '{\"max_pixels\": 1003520}'."
    return [Fix(text=text)]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="lora-oom",
        patterns=OUT_OF_MEMORY,
        frames=_ADAPTERS,
        versions="0.6 to 0.33",
        explain=say(
            "The places for LoRA adapters did not fit beside the weights: each of --max-loras takes what "
            "--max-lora-rank asks for in every layer."
        ),
        fixes=joined(
            do("Lower --max-lora-rank to the adapters' own rank, or --max-loras to how many run at a time."),
            do(without("enable_lora", " if no adapter is used")),
            smaller_model,
        ),
    ),
    Symptom(
        id="warm-up-oom",
        patterns=OUT_OF_MEMORY,
        frames=_WARMS_UP,
        when=lambda seen: not seen.in_frames(_CAPTURES) and not seen.incident.after_ready,
        versions="0.10 to 0.33",
        explain=say(
            "Kernels that are tried out at the end of the boot had no room for their scratch beside the full KV pool."
        ),
        fixes=joined(
            less_utilization,
            do("Lower --max-num-batched-tokens: the scratch grows with it.", without("enable_flashinfer_autotune")),
            fewer_sequences,
        ),
    ),
    Symptom(
        id="encoder-oom-runtime",
        patterns=OUT_OF_MEMORY,
        frames=_ENCODES,
        when=lambda seen: seen.incident.after_ready,
        versions="0.8 to 0.33",
        explain=say(
            "The images, videos or sounds of a request needed more GPU memory than was left beside the pool."
        ),
        fixes=joined(less_utilization, _smaller_images, no_vision, shorter_context),
    ),
    Symptom(
        id="reclaim-timing",
        patterns=OUT_OF_MEMORY,
        frames=r"^(?:custom_all_reduce|quick_all_reduce|symm_mem|pynccl)\.py:",
        when=lambda seen: seen.boot.facts.weights_gib is None and not seen.incident.after_ready,
        versions="any",
        explain=say("The GPU was full before the weights came: another program, or an earlier server, holds it."),
        fixes=do(
            "End what holds it: `nvidia-smi` names the programs, and `cockpit doctor` finds processes that outlived "
            "their server.",
            "Wait until `nvidia-smi` shows the memory free, then start again.",
        ),
    ),
    Symptom(
        id="weights-oom",
        patterns=OUT_OF_MEMORY,
        frames=r"^(?:fp8|\w*online\w*|bitsandbytes\w*|experts_int8|base)\.py:(?:create_weights|process_weights\w*)$",
        when=_quantizes_itself,
        versions="0.6 to 0.33",
        explain=say(
            "--quantization makes the weights small while they are loaded: at first they need the room that they "
            "have in the checkpoint, and that is not there."
        ),
        fixes=joined(
            do("Use a checkpoint that is quantized already (FP8, AWQ, AutoRound)."), smaller_model, no_vision
        ),
    ),
    Symptom(
        id="kv-memory-cpu",
        patterns=(r"DefaultCPUAllocator: (?:can't|not enough)",),
        frames=_POOL,
        versions="0.8 to 0.33, CPU",
        explain=say("The KV pool that was asked for is larger than the host's free memory."),
        fixes=joined(
            do(Fix(text="Ask for less KV cache (in GiB).", env={"VLLM_CPU_KVCACHE_SPACE": "1"})), shorter_context
        ),
    ),
)
