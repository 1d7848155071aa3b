"""GPU and host memory, told apart by the phase of the boot in which it ran out."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.free_memory import END_LEFTOVERS
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import (
    NO_EXPANDABLE_SEGMENTS,
    budget,
    do,
    fewer_sequences,
    free_gib,
    gib,
    in_use_gib,
    joined,
    less_utilization,
    no_draft,
    no_graphs,
    no_vision,
    reads_images,
    say,
    shorter_context,
    smaller_model,
    tried_gib,
)

OUT_OF_MEMORY = (
    r"OutOfMemoryError",
    r"(?:CUDA|HIP|XPU) out of memory",
    r"Tried to allocate [\d.]+ [KMG]i?B",
    r"CUDA (?:driver )?error: out of memory",
    r"not enough GPU memory\. Try",
    r"CUBLAS_STATUS_ALLOC_FAILED",
    r"CUDNN_STATUS_ALLOC_FAILED",
    r"cudaErrorMemoryAllocation",
    r"NVML_SUCCESS == \w+ INTERNAL ASSERT FAILED at \"[^\"]*CUDACachingAllocator",
    r"Triton Error \[\w+\]: out of memory",
    r"torch_call_dispatcher\(\s*\"aten::(?:new_)?empty\"",
)
"""How an allocation on a GPU says that it failed."""
_CAPTURE = r":(?:capture\w*|_capture\w*|_warmup_and_capture|capture_model)$"
_PROFILE = r":(?:profile_run|_dummy(?:_sampler|_pooler)?_run|determine_(?:available_memory|num_available_blocks))$"
_POOL = r":(?:_allocate_kv_cache\w*|initialize_kv_cache\w*|initialize_from_config|allocate_gpu_cache)$"
_LOAD = r":(?:load_model|load_weights|process_weights_after_loading|create_weights|_repack\w*|gptq_marlin_repack)$"


def _figures(seen: Evidence) -> str:
    tried, free, held = tried_gib(seen), free_gib(seen), in_use_gib(seen)
    total = seen.find(r"total capacity of ([\d.]+) GiB")
    parts = []
    if tried is not None:
        parts.append(f"{gib(tried)} were asked for")
    if free is not None:
        parts.append(f"{gib(free)} free" + ("" if total is None else f" of {total:g} GiB"))
    if held is not None:
        parts.append(f"this process holds {gib(held)}")
    return f" ({', '.join(parts)})" if parts else ""


def _weights(seen: Evidence) -> str:
    text = f"The weights do not fit: the GPU was full while they were loaded{_figures(seen)}."
    size, total = seen.boot.facts.checkpoint_gib, seen.figures.get("total_gib")
    ranks = int(seen.arguments.number("tensor_parallel_size") or 1)
    if size is None:
        return text
    share = f", {gib(size / ranks)} on each of {ranks} GPUs" if ranks > 1 else ""
    there = "" if total is None else f"; a GPU has {gib(total)}"
    return f"{text} The checkpoint has {gib(size)}{share}{there}."


_NOTHING_ELSE = "Make sure that nothing else uses the GPU."


def _of_offload(seen: Evidence) -> list[Fix]:
    """Weights that were to lie in RAM, and do not with the runner of later releases."""
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    if not seen.arguments.chosen("cpu_offload_gb") or (version and int(version[1]) < 25):
        return []
    text = "Offload with the older runner: --cpu-offload-gb does nothing where the log says `Using V2 Model Runner`."
    return [Fix(text=text, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})]


def _of_shared(seen: Evidence) -> list[Fix]:
    if "HIP out of memory" not in seen.incident.text:
        return []
    return [Fix(text="On an APU (Strix Halo) the driver lends half of the RAM unless ttm.pages_limit says more.")]


def _in(functions: str, seen: Evidence) -> bool:
    return seen.in_frames(functions)


def _capturing(seen: Evidence) -> bool:
    at = seen.incident.stage == "graphs" or "capturing" in seen.figures
    return (
        _in(_CAPTURE, seen) or (at and not seen.incident.after_ready) or "ESTIMATE_CUDAGRAPHS" in seen.incident.text
    )


def _loading(seen: Evidence) -> bool:
    if seen.incident.after_ready or _in(_PROFILE, seen):
        return False
    loaded = seen.boot.facts.weights_gib is not None
    early = (
        seen.incident.stage in ("environment", "config", "weights") or "Failed to load model" in seen.incident.text
    )
    told = seen.has_head or seen.incident.stage == "weights" or "loading" in seen.figures
    return _in(_LOAD, seen) or (early and not loaded and told)


def _profiling(seen: Evidence) -> bool:
    if seen.incident.after_ready:
        return False
    return _in(_PROFILE, seen) or (
        seen.incident.stage in ("compile", "kv_pool") and seen.boot.facts.capacity_tokens is None
    )


def _sampling(seen: Evidence) -> bool:
    return _in(
        r"(?:topk_topp_sampler|sampler|logits_processor)\.py:|:"
        r"(?:apply_top_k_top_p|_sample|sample_tokens|compute_logits)$",
        seen,
    )


_AT_START = r"\b(?:init_device|mem_get_info|MemorySnapshot|set_device|_lazy_init)\b"


def _early(seen: Evidence) -> bool:
    """The driver itself had nothing left, before the allocator asked for anything."""
    told = seen.in_frames(_AT_START) or re.search(_AT_START, seen.incident.text) is not None
    return told and not seen.incident.after_ready


def _host_starved(seen: Evidence) -> bool:
    tried, free = tried_gib(seen), free_gib(seen)
    roomy = free is None or (tried is not None and free > 4 * tried)
    return "host-ram" in seen.counts and tried is not None and tried < 0.25 and roomy


def _smaller_pool(seen: Evidence) -> list[Fix]:
    if seen.arguments.get("kv_cache_memory_bytes"):
        return [Fix(text="Leave --kv-cache-memory-bytes out, or give it less: it counts instead of the utilization.")]
    return [Fix(text="Make sure that nothing else uses the GPU.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="wsl-expandable-segments",
        patterns=(r"CUDA driver error: out of memory", r"torch_call_dispatcher\(\s*\"aten::empty\""),
        when=lambda seen: "wsl-pin-memory-warning" in seen.counts,
        versions="0.20 to 0.33",
        explain=say(
            "WSL2 refused memory to PyTorch's expandable segments, which ask the driver; the GPU need not be full."
        ),
        fixes=joined(lambda _: [NO_EXPANDABLE_SEGMENTS], smaller_model),
    ),
    Symptom(
        id="reclaim-timing",
        patterns=OUT_OF_MEMORY,
        when=_early,
        versions="any",
        explain=say(
            "The GPU was full before the server allocated anything: an earlier program has not given it back."
        ),
        fixes=do(END_LEFTOVERS, "Wait until `nvidia-smi` shows the memory free, then start again."),
    ),
    Symptom(
        id="host-ram",
        patterns=OUT_OF_MEMORY,
        when=_host_starved,
        versions="0.20 to 0.33",
        explain=lambda seen: (
            f"The allocation that failed is tiny{_figures(seen)}, and the checkpoint is larger than the host's free "
            "memory: it is the host's RAM that ran out, not the GPU's."
        ),
        fixes=do(
            "Give the host more RAM than the checkpoint's size; on WSL2 set memory= in .wslconfig and run "
            "`wsl --shutdown`."
        ),
    ),
    Symptom(
        id="host-ram",
        when=lambda seen: not seen.in_frames(r":(?:parse_safetensors_file_metadata|get_safetensors_\w+)$"),
        patterns=(
            r"(?<![A-Za-z])MemoryError\b",
            r"\[Errno 12\] Cannot allocate memory",
            r"unable to mmap \d+ bytes",
            r"DefaultCPUAllocator: (?:can't|not enough)",
            r"std::bad_alloc",
            r"ArrayMemoryError",
        ),
        versions="any",
        explain=say("The host ran out of memory."),
        fixes=do("Free RAM or add swap, or use a smaller checkpoint; on WSL2 raise memory= in .wslconfig."),
    ),
    Symptom(
        id="pinned-memory",
        patterns=(*OUT_OF_MEMORY, r"cudaHostRegister[^\n]{0,80}(?:failed|error)", r"cudaHostAlloc[^\n]{0,80}failed"),
        frames=r":(?:pin_memory|pin_mmap_region|_pin_\w+|_offload\w*|_move_params)$",
        versions="0.6 to 0.33",
        explain=say(
            "Host memory could not be pinned for the GPU: the driver reports that as out of memory, and the GPU need "
            "not be full."
        ),
        fixes=do(
            "Offload less (--cpu-offload-gb, --kv-offloading-size), or free RAM; a part of it can be pinned only.",
            "Start a container with --ulimit memlock=-1; on WSL2 raise memory= in .wslconfig.",
        ),
    ),
    Symptom(
        id="sampler-oom",
        patterns=(
            r"out of memory occurred when warming up sampler(?: with (?P<requests>\d+))?",
            r"warming up (?:the )?sampler.*out of memory",
        ),
        versions="0.8 to 0.33",
        explain=lambda seen: (
            f"The logits of {seen.groups.get('requests', 'all')} sequences at once do not fit beside the KV pool: "
            "each takes the whole vocabulary."
        ),
        fixes=joined(fewer_sequences, less_utilization),
    ),
    Symptom(
        id="sampler-oom-runtime",
        patterns=OUT_OF_MEMORY,
        when=_sampling,
        versions="0.10 to 0.33",
        explain=lambda seen: f"The sampler had no room to sort the logits of the running requests{_figures(seen)}.",
        fixes=joined(less_utilization, lambda seen: fewer_sequences(seen, 32)),
    ),
    Symptom(
        id="kv-pool-oom",
        patterns=OUT_OF_MEMORY,
        frames=_POOL,
        versions="0.6 to 0.33",
        explain=lambda seen: (
            f"The KV pool was planned, and could not be allocated{_figures(seen)}: another program took memory "
            "meanwhile, or the pool's size was pinned above what is free."
        ),
        fixes=joined(_smaller_pool, less_utilization),
    ),
    Symptom(
        id="cudagraph-oom",
        patterns=(*OUT_OF_MEMORY, r"CUDA error: device kernel image is invalid"),
        when=_capturing,
        versions="0.6 to 0.33",
        explain=lambda seen: (
            f"CUDA graphs did not fit beside the full KV pool{_figures(seen)}: they are only estimated when "
            "the pool is sized."
        ),
        fixes=joined(less_utilization, fewer_sequences, no_graphs),
    ),
    Symptom(
        id="weights-oom",
        patterns=OUT_OF_MEMORY,
        when=_loading,
        versions="any",
        explain=_weights,
        fixes=joined(_of_offload, smaller_model, no_vision, no_draft, _of_shared, do(_NOTHING_ELSE)),
    ),
    Symptom(
        id="profile-oom-multimodal",
        patterns=OUT_OF_MEMORY,
        when=lambda seen: _profiling(seen) and reads_images(seen) and bool(no_vision(seen)),
        versions="0.19 to 0.33",
        explain=lambda seen: (
            f"The test run with the largest images did not fit{_figures(seen)}. {budget(seen)}".strip()
        ),
        fixes=joined(no_vision, fewer_sequences, do("Lower --max-num-batched-tokens."), smaller_model),
    ),
    Symptom(
        id="profile-oom",
        patterns=OUT_OF_MEMORY,
        when=_profiling,
        versions="any",
        explain=lambda seen: (
            f"The test run that measures activations did not fit{_figures(seen)}. {budget(seen)}".strip()
        ),
        fixes=joined(do("Lower --max-num-batched-tokens, for example to 2048."), fewer_sequences, smaller_model),
    ),
    Symptom(
        id="runtime-oom",
        patterns=OUT_OF_MEMORY,
        when=lambda seen: seen.incident.after_ready,
        versions="any",
        explain=lambda seen: f"A request needed more GPU memory than was left beside the KV pool{_figures(seen)}.",
        fixes=joined(less_utilization, fewer_sequences, shorter_context),
    ),
    Symptom(
        id="out-of-memory",
        patterns=OUT_OF_MEMORY,
        versions="any",
        explain=lambda seen: f"The GPU ran out of memory{_figures(seen)}.",
        fixes=joined(smaller_model, less_utilization, fewer_sequences),
    ),
)
