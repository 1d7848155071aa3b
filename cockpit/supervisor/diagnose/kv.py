"""The KV pool: too small for anything, for one request, or for the sequences."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import (
    HIGHEST_UTILIZATION,
    budget,
    count,
    gib,
    more_utilization,
    no_draft,
    no_graphs,
    no_vision,
    say,
    shorter_context,
    smaller_kv,
    smaller_model,
    utilization,
    without,
)


def _no_memory(seen: Evidence) -> str:
    share = utilization(seen)
    pinned = seen.arguments.number("kv_cache_memory_bytes")
    if pinned is not None:
        return f"--kv-cache-memory-bytes gives the KV pool {pinned:,.0f} bytes, which is less than one block takes."
    exhausted = share is not None and share >= HIGHEST_UTILIZATION
    left = "Nothing is left for the KV cache once the weights are loaded and the activations are measured."
    advice = f" The utilization is {share:g} already: the model is too large for this card." if exhausted else ""
    return " ".join(filter(None, (left, budget(seen)))) + advice


def _no_memory_fixes(seen: Evidence) -> list[Fix]:
    if seen.arguments.number("kv_cache_memory_bytes") is not None:
        return [without("kv_cache_memory_bytes", ", or give it more")]
    first = [*more_utilization(seen), *no_vision(seen), *no_draft(seen)]
    return [*first, *smaller_model(seen), *shorter_context(seen), *smaller_kv(seen)]


def _max_len(seen: Evidence) -> str:
    wanted = seen.find(r"max seq len \(?([\d,]+)") or seen.boot.facts.max_model_len
    needed = seen.find(r"([\d.]+) G(?:i)?B(?: of)? KV cache (?:memory )?is needed")
    there = seen.find(r"available KV cache\s+memory \(?([\d.]+)")
    stored = seen.find(r"stored in KV cache \(([\d,]+)\)")
    request = "One request at the full context" if wanted is None else f"One request of {count(wanted)} tokens"
    text = f"{request} does not fit the KV pool"
    if needed and there is not None:  # a tiny model's needs are printed as 0.0
        text += f": it needs {gib(needed)}, there are {gib(there)}"
    elif stored is not None:
        text += f" of {count(stored)} tokens"
    return " ".join(filter(None, (f"{text}.", budget(seen))))


def _max_len_fixes(seen: Evidence) -> list[Fix]:
    fits = seen.find(r"estimated maximum model length is ([\d,]+)") or seen.find(r"stored in KV cache \(([\d,]+)\)")
    fixes = []
    if fits is not None and fits >= 16:
        text = f"Start again with a context of {count(fits)} tokens, which is what fits."
        fixes.append(Fix(text=text, set={"max_model_len": int(fits)}))
    rest = [*smaller_kv(seen), *more_utilization(seen), *no_draft(seen), *no_vision(seen)]
    return [*fixes, *rest] if fixes else [*rest, *shorter_context(seen), *smaller_model(seen)]


def _mamba_fixes(seen: Evidence) -> list[Fix]:
    blocks = seen.number("blocks")
    fixes = []
    if blocks is not None and blocks >= 1:
        text = f"Run at most {count(blocks)} requests at a time."
        fixes.append(Fix(text=text, set={"max_num_seqs": int(blocks)}))
    return [*fixes, *shorter_context(seen), *more_utilization(seen), *no_graphs(seen)]


def _mamba(seen: Evidence) -> str:
    wanted, blocks = seen.number("wanted"), seen.number("blocks")
    return (
        f"The hybrid model needs one state block for each of {count(wanted)} sequences, "
        f"and the pool has {count(blocks)}."
    )


def _cpu_fixes(seen: Evidence) -> list[Fix]:
    free, total = seen.number("free"), seen.number("total")
    share = None if free is None or not total else int(free / total * 90) / 100
    fixes = [Fix(text="Ask for less KV cache (in GiB).", env={"VLLM_CPU_KVCACHE_SPACE": "1"})]
    if share is not None and share >= 0.05 and "utilization" in seen.incident.text:
        text = f"Reserve {share:g} of the host's memory, which is free."
        fixes.insert(0, Fix(text=text, set={"gpu_memory_utilization": share}))
    return [*fixes, *shorter_context(seen)]


def _block_size(seen: Evidence) -> str:
    size, takes = seen.groups.get("size", ""), _multiple(seen)
    rest = f": {takes[0]} takes multiples of {takes[1]}" if takes else ""
    return f"The attention backend has no kernel for KV blocks of {size} tokens{rest}."


def _multiple(seen: Evidence) -> tuple[str, str] | None:
    """The backend and the number of which it takes multiples, where one backend says so."""
    found = re.findall(r"(\w+): \[MultipleOf\((\d+)\)\]", seen.incident.text)
    return found[0] if len(found) == 1 else None


def _block_size_fixes(seen: Evidence) -> list[Fix]:
    takes = _multiple(seen)
    other = f"give a multiple of {takes[1]}" if takes else "give one of the sizes that the message lists"
    return [without("block_size", ", so that vLLM chooses"), Fix(text=f"Or {other}.")]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="mamba-blocks",
        patterns=(
            r"max_num_seqs \(?(?P<wanted>[\d,]+)\)? exceeds (?:the )?available Mamba cache\s+blocks "
            r"\(?(?P<blocks>[\d,]+)",
        ),
        versions="0.18 to 0.33",
        explain=_mamba,
        fixes=_mamba_fixes,
    ),
    Symptom(
        id="kv-max-len",
        patterns=(
            r"To serve at least one request with the models?'s max seq len",
            r"max seq len \(?[\d,]+\)? is larger than the maximum number of tokens that can be stored in KV cache",
            r"estimated maximum model length is [\d,]+",
            r"KV cache is needed, which is larger than the available KV cache",
        ),
        versions="0.2 to 0.33",
        explain=_max_len,
        fixes=_max_len_fixes,
    ),
    Symptom(
        id="kv-no-memory",
        patterns=(
            r"No available memory for the cache blocks",
            r"not enough GPU memory available to serve even a single token",
            r"Available KV cache memory: -[\d.]+ GiB",
        ),
        versions="0.3 to 0.33",
        explain=_no_memory,
        fixes=_no_memory_fixes,
    ),
    Symptom(
        id="block-size",
        patterns=(r"No common block size for (?P<size>\d+)",),
        versions="0.11 to 0.33",
        explain=_block_size,
        fixes=_block_size_fixes,
    ),
    Symptom(
        id="kv-memory-cpu",
        patterns=(
            r"Available memory on node \d+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)",
            r"VLLM_CPU_KVCACHE_SPACE.{0,200}(?:exceed|larger|not enough|too (?:large|big))",
        ),
        versions="0.26 to 0.33, CPU",
        explain=say(
            "The server asks for more memory than the host has free ({free} of {total} GiB).",
            "The server asks for more memory than the host has free.",
        ),
        fixes=_cpu_fixes,
    ),
)
