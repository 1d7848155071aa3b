"""What each line of a vLLM boot log means: one table, one row a line. Knows vLLM 0.20 to 0.33, CUDA and CPU."""

from __future__ import annotations

import re
from collections.abc import Callable

from cockpit.supervisor import boot_int8, boot_memory
from cockpit.supervisor.boot_state import BootDraft, extreme

Match = re.Match[str]
Act = Callable[[BootDraft, Match, float], None]
"""Changes the draft by a matched line, seen so many seconds after the spawn."""


def _count(digits: str) -> int:
    return int(digits.replace(",", ""))


def _version(draft: BootDraft, match: Match, at: float) -> None:
    draft.learn(vllm_version=match[1])
    draft.note("environment", f"vLLM {match[1]}")
    draft.enter("config", at)


def _arguments(draft: BootDraft, _: Match, at: float) -> None:
    draft.enter("config", at)


def _architecture(draft: BootDraft, match: Match, at: float) -> None:
    draft.enter("config", at)
    if draft.facts.architecture is None:  # a draft model comes second
        draft.learn(architecture=match[1])
        draft.note("config", match[1])


def _model_len(draft: BootDraft, match: Match, _: float) -> None:
    draft.learn(max_model_len=_count(match[1]))


def _engine(draft: BootDraft, match: Match, at: float) -> None:
    draft.learn(vllm_version=match[1])
    draft.enter("config", at)
    if "enforce_eager=False" in match.string and "CompilationMode.NONE" not in match.string:
        draft.expect_compile()


def _world(draft: BootDraft, match: Match, _: float) -> None:
    draft.learn(world_size=int(match[1]))


def _nccl(draft: BootDraft, match: Match, _: float) -> None:
    draft.learn(nccl_version=match[1])


def _loading(draft: BootDraft, _: Match, at: float) -> None:
    draft.enter("weights", at)


def _shards(draft: BootDraft, match: Match, at: float) -> None:
    draft.enter("weights", at)
    total = draft.facts.checkpoint_gib
    # The streaming loaders count tensors.
    unit = "shards" if "shards" in match[1] or "Fastsafetensor" in match[1] else "tensors"
    draft.note("weights", f"{unit} {match[2]}/{match[3]}" + (f" of {total:.2f} GiB" if total else ""))


def _fetching(draft: BootDraft, match: Match, _: float) -> None:
    draft.note(draft.current, f"downloading files {match[1]}/{match[2]}")


def _checkpoint_size(draft: BootDraft, match: Match, at: float) -> None:
    draft.enter("weights", at)
    if draft.facts.checkpoint_gib is None:  # a draft model comes second
        draft.learn(checkpoint_gib=float(match[1]))


def _weights_read(draft: BootDraft, _: Match, at: float) -> None:
    draft.leave("weights", at)


def _weights_there(draft: BootDraft, match: Match, at: float) -> None:
    gib = extreme(max, draft.facts.weights_gib, float(match[1]))
    draft.learn(weights_gib=gib)
    draft.leave("weights", at)
    draft.note("weights", f"{gib:.2f} GiB")


def _compiling(draft: BootDraft, _: Match, __: float) -> None:
    draft.compiling()


def _compiling_on_cpu(draft: BootDraft, _: Match, at: float) -> None:
    draft.leave("weights", at)
    draft.compiling()


def _compiled_before(draft: BootDraft, _: Match, __: float) -> None:
    draft.compiling()
    draft.note("compile", "from the cache")


def _compiled(draft: BootDraft, _: Match, at: float) -> None:
    draft.compiling()
    draft.leave("compile", at)


def _available(draft: BootDraft, match: Match, at: float) -> None:
    gib = extreme(min, draft.facts.available_kv_gib, float(match[1]))
    draft.learn(available_kv_gib=gib)
    draft.enter("kv_pool", at)
    draft.note("kv_pool", f"{gib:.2f} GiB")


def _capacity(draft: BootDraft, match: Match, at: float) -> None:
    draft.learn(capacity_tokens=_count(match[1]))
    draft.pool_told = True
    draft.close("kv_pool", at)
    draft.note("kv_pool", f"{_count(match[1]):,} tokens")
    if match[2]:
        draft.learn(max_model_len=_count(match[2]), max_concurrency=float(match[3].replace(",", "")))


def _blocks(draft: BootDraft, match: Match, at: float) -> None:
    draft.learn(capacity_tokens=_count(match[1]) * _V0_BLOCK_TOKENS)
    draft.close("kv_pool", at)


def _concurrency(draft: BootDraft, match: Match, _: float) -> None:
    length, requests = _count(match[1]), float(match[2].replace(",", ""))
    draft.learn(max_model_len=length, max_concurrency=requests)
    told = draft.facts.capacity_tokens
    if told is not None and draft.pool_told and length * requests > told * _ROUNDING:
        draft.learn(capacity_tokens=int(length * requests), capacity_corrected=True)
        draft.note("kv_pool", f"{int(length * requests):,} tokens")


def _capturing(draft: BootDraft, match: Match, at: float) -> None:
    if draft.is_closed("kv_pool"):  # before that it only measures what graphs will need
        draft.enter("graphs", at)
        draft.note("graphs", f"{match[1] or ''} {match[2]}/{match[3]}".strip())


def _captured(draft: BootDraft, match: Match, at: float) -> None:
    if draft.is_closed("kv_pool"):
        draft.leave("graphs", at)
        draft.note("graphs", f"{match[1]} GiB")


def _engine_ready(draft: BootDraft, _: Match, at: float) -> None:
    draft.enter("ready", at)


def _complete(draft: BootDraft, _: Match, at: float) -> None:
    draft.finish(at)


def _kernel(draft: BootDraft, match: Match, _: float) -> None:
    draft.kernel(match[2], match[1])


def _moe_kernel(draft: BootDraft, match: Match, _: float) -> None:
    draft.kernel(f"{match[2]} MoE", match[1])


def _gdn_kernel(draft: BootDraft, match: Match, _: float) -> None:
    draft.kernel("GDN prefill", match[1])


def _attention(draft: BootDraft, match: Match, _: float) -> None:
    draft.learn(attention_backend=match[1])


_V0_BLOCK_TOKENS = 16
_ROUNDING = 1.05
"""Concurrency has two digits; a larger difference is not its rounding."""
_TOKENS = r"(\d[\d,]{0,20})"
_CONCURRENCY = rf"Maximum concurrency for {_TOKENS} tokens per request: (\d[\d,]{{0,20}}(?:\.\d+)?)x"
_KINDS = r"mixed-precision linear|NVFP4 GEMM|CompressedTensors\w{1,60}|\w{1,60}LinearMethod"
_LOADING = "(?:Multi-thread loading|Loading (?:safetensors|pt|np_cache))"
"""How the progress bars of vLLM's loaders begin (weight_utils.py of 0.20 to 0.33)."""
_TABLE: tuple[tuple[str, Act], ...] = (
    (r"[ ▀▄█]*version (\d[\w.+-]{0,60})", _version),
    (r"vLLM (?:API )?server version (?:v)?(\d[\w.+-]{0,60}\w)", _version),
    (r"non-default args", _arguments),
    (r"Resolved architecture: (\w{1,100})", _architecture),
    (rf"Using max model len {_TOKENS}", _model_len),
    (r"Initializing an? (?:V\d )?LLM engine \(v([^)\s]{1,60})\)", _engine),
    (r"world_size=(\d{1,6}) rank=", _world),
    (r"vLLM is using nccl==(\S{1,40})", _nccl),
    (r"Starting to load model|Loading model from", _loading),
    (r"Filesystem type for checkpoints: \S{1,60}\. Checkpoint size: (\d{1,9}(?:\.\d+)?) GiB", _checkpoint_size),
    (rf"({_LOADING}[^:]{{0,60}}): +\d+% Completed \| (\d{{1,9}})/(\d{{1,9}})", _shards),
    (r"Fetching \d{1,9} files: +\d+%\|[^|]{0,400}\| (\d{1,9})/(\d{1,9})", _fetching),
    (r"Loading weights took", _weights_read),
    (r"Model loading took (\d{1,9}(?:\.\d+)?) GiB", _weights_there),
    (r"Dynamo |Starting torch\.compile|Compiling a graph|Using cache directory: .*torch\.compile", _compiling),
    (r"Warming up model for the compilation", _compiling_on_cpu),
    (r"Directly load the compiled", _compiled_before),
    (r"torch\.compile took|Warming up done", _compiled),
    (r"Available KV cache memory: (-?\d{1,9}(?:\.\d+)?) GiB", _available),
    (r"(?:Explicitly|Auto) set \((\d{1,9}(?:\.\d+)?)/\d{1,9}(?:\.\d+)?\) GiB for KV cache", _available),
    (rf"Auto-fit max_model_len: reduced from \d+ to {_TOKENS}", _model_len),
    (r"# (?:GPU|cuda|CUDA|CPU) blocks: (\d{1,9})", _blocks),
    (rf"[CGTX]PU(?: \+ host)? KV cache size: {_TOKENS} tokens(?:, {_CONCURRENCY})?", _capacity),
    (_CONCURRENCY, _concurrency),
    (r"Capturing (?:[\w-]{1,30} ){0,3}CUDA graphs? ?(\([^)]{1,40}\))?.*?\| (\d{1,9})/(\d{1,9}) \[", _capturing),
    (r"Graph capturing finished in \d+ secs, took (-?\d{1,9}(?:\.\d+)?) GiB", _captured),
    (r"init engine|Starting vLLM", _engine_ready),
    (r"Application startup complete", _complete),
    (rf"Using (\S{{1,80}}) for ({_KINDS})", _kernel),
    (r"Using '(\w{1,60})' (\w{1,20}) MoE backend", _moe_kernel),
    (r"Using (\w{1,60}) GDN prefill kernel", _gdn_kernel),
    (r"Using (\w{1,60}) attention backend", _attention),
)
_RULES = tuple((re.compile(pattern), act) for pattern, act in (*_TABLE, *boot_memory.TABLE, *boot_int8.TABLE))

OPENINGS = (
    r"[ ▀▄█]*version |vLLM (?:API )?server version|non-default args|Resolved arch|Using |Initializing an? "
    r"|world_size="
    r"|vLLM is using|Starting (?:to load|torch|vLLM)|Filesystem type|(?:Multi-thread l|L)oading |Fetching "
    r"|Model loading|Dynamo |Compiling a graph|Directly load|torch\.compile took|Available KV"
    r"|Auto-fit|Explicitly set |Auto set "
    r"|[CGTX]PU (?:\+ host )?KV cache|# \w+ blocks: |Maximum conc|Warming up |Capturing |Graph capturing"
    rf"|init engine|Application startup complete|{boot_memory.OPENINGS}|{boot_int8.OPENINGS}"
)
"""How the texts begin that the table knows, so that one match settles every other line."""


def apply(draft: BootDraft, text: str, at: float) -> None:
    """Change the draft by the first rule that knows the line's text, seen ``at`` seconds after the spawn."""
    for pattern, act in _RULES:
        match = pattern.match(text)
        if match is not None:
            act(draft, match, at)
            return
