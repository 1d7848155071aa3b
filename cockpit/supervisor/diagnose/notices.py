"""Lines that living servers write too: worth a note; a few of them mean that a server is of little use."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import (
    added,
    count,
    do,
    fewer_sequences,
    joined,
    less_utilization,
    no_draft,
    no_vision,
    say,
)

_SKIPPED_TENSORS = 8
"""More than a handful of skipped tensors is a checkpoint of another class."""
_HANG_REPEATS = 3
"""A waiting notice comes once a minute; boots wait for compilers too."""
_LARGE_GRAPHS_GIB = 3.0
_LOW_ACCEPTANCE_PERCENT = 10.0


def _hangs(seen: Evidence) -> bool:
    return seen.boot.ready and seen.counts.get("shm-broadcast-wait", 0) > _HANG_REPEATS


def _skipped(seen: Evidence) -> bool:
    return seen.counts.get("weights-skipped-silently", 0) > _SKIPPED_TENSORS or not seen.has_head


def _ranks(seen: Evidence) -> float:
    told = (seen.arguments.number(name) for name in ("tensor_parallel_size", "pipeline_parallel_size"))
    return max(seen.boot.facts.world_size or 1, *(number or 1 for number in told))


def _waits(seen: Evidence) -> str:
    if _hangs(seen):
        times = seen.counts["shm-broadcast-wait"]
        return f"A worker hangs: the others have waited for it {times} times since the server was ready."
    return "Processes waited for a worker: normal while it compiles or loads, a hang when nothing else is logged."


def _number_fixes(seen: Evidence) -> list[Fix]:
    kind = str(seen.arguments.get("kv_cache_dtype") or "auto")
    plain = [] if kind == "auto" else [Fix(text="Let the model choose the KV type.", set={"kv_cache_dtype": "auto"})]
    int8 = seen.arguments.get("int8") == "on" or seen.boot.facts.int8 is not None
    wide = [Fix(text="Serve it with 16-bit activations.", set={"int8": "off"})] if int8 else []
    return [
        *wide,
        *plain,
        Fix(text="With float16 use bfloat16 (--dtype bfloat16), which does not overflow; or another checkpoint."),
    ]


_NO_P2P = Fix(text="Try it without direct transfers between the GPUs.", env={"NCCL_P2P_DISABLE": "1"})

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="weights-skipped-silently",
        notice="grave",
        patterns=(r"not found in params_dict, skip loading",),
        when=_skipped,
        versions="0.20 to 0.33",
        explain=lambda seen: (
            f"{count(seen.counts.get('weights-skipped-silently'))} tensors were skipped while loading: the "
            "checkpoint does "
            "not match the model class, and the answers will be garbage."
        ),
        fixes=do("Use a checkpoint made for this model class, or the vLLM version that its card names."),
    ),
    Symptom(
        id="shm-broadcast-wait",
        notice="grave",
        patterns=(r"No available shared memory broadcast block found",),
        when=_hangs,
        versions="0.11 to 0.33",
        explain=_waits,
        fixes=do("Stop it and start again; look at `dmesg` for Xid lines.", _NO_P2P),
    ),
    Symptom(
        id="shm-broadcast-wait",
        notice="maybe",
        patterns=(r"No available shared memory broadcast block found",),
        versions="0.11 to 0.33",
        explain=_waits,
        fixes=do("Wait; when nothing else is logged for many minutes, stop it.", _NO_P2P),
    ),
    Symptom(
        id="nccl-p2p-hang",
        notice="hang",
        patterns=(r"vLLM is using nccl==", r"Found nccl from library", r"GPU P2P access cache"),
        when=lambda seen: seen.boot.current in ("environment", "config") and (_ranks(seen) > 1 or not seen.has_head),
        versions="0.5 to 0.33",
        explain=say(
            "The log ends while NCCL connects the GPUs: when that takes minutes, it hangs in direct "
            "transfers between them."
        ),
        fixes=do(
            _NO_P2P,
            added("disable_custom_all_reduce"),
            "Update the driver (RTX 4090 and 5090 have no P2P), set iommu=pt on AMD boards.",
        ),
    ),
    Symptom(
        id="chat-template-missing",
        notice="note",
        patterns=(
            r"default chat template is no longer allowed",
            r"must provide a chat template",
            r"ChatTemplateResolutionError",
            r"Cannot use chat template functions because tokenizer\.chat_template is not set",
        ),
        versions="0.6 to 0.33",
        explain=say("The model has no chat template: the server runs, and /v1/chat/completions answers 400."),
        fixes=do(
            "Give one with --chat-template FILE, or serve the -Instruct (-it) checkpoint; check the path "
            "of the model."
        ),
    ),
    Symptom(
        id="garbage-output",
        notice="warn",
        patterns=(
            r"Out of range float values are not JSON compliant",
            r"probability tensor contains either `?inf`?, `?nan`?",
        ),
        versions="0.6 to 0.33",
        explain=say("The model computes values that are no numbers (NaN): its answers are garbage."),
        fixes=_number_fixes,
    ),
    Symptom(
        id="too-many-images",
        notice="note",
        patterns=(
            r"At most (?P<most>\d+) (?P<kind>\w+)\(s\) may be provided in one (?:prompt|request)",
            r"You set (?P<kind>\w+)=(?P<most>\d+) \(or defaulted to \d+\) in [`']--limit-mm-per-prompt",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "A client sent more than {most} {kind}s in one prompt, and gets an error.",
            "A client sent more images in one prompt than the server takes, and gets an error.",
        ),
        fixes=do("Raise --limit-mm-per-prompt; each takes memory."),
    ),
    Symptom(
        id="image-too-large",
        notice="note",
        patterns=(
            r"(?P<kind>\w+) item with length (?P<tokens>\d+), which exceeds the pre-allocated encoder cache size "
            r"(?P<most>\d+)",
        ),
        versions="0.8 to 0.33",
        explain=say(
            "A client sent an {kind} of {tokens} tokens, the server takes up to {most}, and answers with an error.",
            "A client sent an image that is larger than the server takes, and gets an error.",
        ),
        fixes=do("Raise --max-num-batched-tokens, which the limit follows; or send smaller images."),
    ),
    Symptom(
        id="tool-parser-runtime",
        notice="note",
        patterns=(r"tool choice requires --enable-auto-tool-choice",),
        versions="0.6 to 0.33",
        explain=say("A client asks for tools, and the server was started without a tool parser: it answers 400."),
        fixes=do(
            added("tool_call_parser", "Add --enable-auto-tool-choice and --tool-call-parser (qwen3_xml for Qwen3.x).")
        ),
    ),
    Symptom(
        id="host-ram",
        notice="note",
        patterns=(r"Auto-prefetch is disabled.{0,200}exceeds \d+% of available RAM",),
        versions="0.20 to 0.33",
        explain=say("The checkpoint is larger than the host's free memory: loading is slow, and may run out of RAM."),
        fixes=do(
            "Give the host more RAM than the checkpoint's size; on WSL2 set memory= in .wslconfig and run "
            "`wsl --shutdown`."
        ),
    ),
    Symptom(
        id="profile-oom-multimodal",
        notice="maybe",
        patterns=(r"Encoder cache will be initialized with a budget", r"Starting profile run for multi-modal models"),
        when=lambda seen: bool(no_vision(seen)),
        versions="0.19 to 0.33",
        explain=say(
            "The vision part is loaded and measured with its largest images, which costs memory that text "
            "does not need."
        ),
        fixes=no_vision,
    ),
    Symptom(
        id="cudagraph-oom",
        notice="note",
        patterns=(r"Graph capturing finished in [\d.]+ secs?, took (?P<gib>[\d.]+) GiB",),
        when=lambda seen: (seen.number("gib") or 0.0) >= _LARGE_GRAPHS_GIB,
        versions="0.6 to 0.33",
        explain=say("CUDA graphs took {gib} GiB, which the pool did not count on: requests may run out of memory."),
        fixes=joined(less_utilization, fewer_sequences),
    ),
    Symptom(
        id="mtp-eats-kv",
        notice="note",
        patterns=(
            r"max_num_scheduled_tokens is set to (?P<tokens>\d+) based on the speculative decoding settings",
            r"Available KV cache [\d.]+ GiB / [\d,]+ tokens",
        ),
        versions="0.20 to 0.33",
        explain=say(
            "The draft takes KV memory for its own layers and its state for each request, and caps the "
            "tokens of a step."
        ),
        fixes=lambda seen: (
            no_draft(seen) or [Fix(text="Turn the draft off to see the difference.", set={"speculative_tokens": 0})]
        ),
    ),
    Symptom(
        id="prefix-cache-hybrid",
        notice="maybe",
        patterns=(r"Setting attention block size to (?P<tokens>\d+) tokens",),
        when=lambda seen: "no_prefix_hits" in seen.figures,
        versions="0.19 to 0.33",
        explain=say(
            "Prefix caching works in blocks of {tokens} tokens on this hybrid model: shorter common "
            "beginnings never hit."
        ),
        fixes=do("Nothing is broken: long shared prompts hit."),
    ),
    Symptom(
        id="wsl-pin-memory-warning",
        notice="maybe",
        patterns=(r"pin_memory=False' as WSL is detected", r"WSL2 kernel version is below"),
        versions="0.2 to 0.33",
        explain=say("A normal warning on WSL2, and no reason for a failure."),
        fixes=do("Nothing must be done; `wsl --update` brings a kernel that pins memory."),
    ),
    Symptom(
        id="spec-zero-acceptance",
        notice="warn",
        patterns=(r"Avg Draft acceptance rate: (?P<percent>[\d.]+)%",),
        when=lambda seen: (seen.number("percent") or 0.0) < _LOW_ACCEPTANCE_PERCENT,
        versions="0.9 to 0.33",
        explain=say("Only {percent} % of the drafted tokens were accepted: the draft makes the server slower."),
        fixes=no_draft,
    ),
)
