"""Sentences, figures and fixes that several symptoms share."""

from __future__ import annotations

import re
from collections.abc import Callable

from cockpit.nearest import did_you_mean
from cockpit.supervisor.diagnose.number import number_of
from cockpit.supervisor.diagnose.shown import shown_exception
from cockpit.supervisor.diagnose.types import Evidence, Explain, Fix, Fixes
from cockpit.units import UNKNOWN

NO_EXPANDABLE_SEGMENTS = Fix(
    text="Turn expandable segments off.",
    env={
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
        "PYTORCH_ALLOC_CONF": "expandable_segments:False",
    },
)
_PLACE = re.compile(r"\{(\w+)\}")
HIGHEST_UTILIZATION = 0.95
"""Above it nothing is left for what vLLM does not count: advice to go higher helps nobody."""
_DEFAULT_UTILIZATION = 0.92
"""Of vLLM 0.20 and later (config/cache.py)."""
_LONGEST_REASON = 240
"""Characters of an exception's message in a sentence; the whole is shown below it."""
_LISTED = re.compile(
    r"(?:chose from|choose from|Must be one of|Available parsers:|Valid (?:values|options|layouts|backends)(?: are)?:"
    r"|Supported[\w ]{0,30}:)(?P<words>.*)"
)
"""How a message begins the list of what it would have taken."""
_FREE = re.compile(r"of which (?P<size>[\d.]+) (?P<unit>[KMG]i?B) is free")
_TRIED = re.compile(r"Tried to allocate (?P<size>[\d.]+) (?P<unit>[KMG]i?B)")
_IN_USE = re.compile(r"(?:this process|Process \d+) has (?P<size>[\d.]+) (?P<unit>[KMG]i?B) memory in use")
_GIB_OF = {"K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0}


def say(text: str, plain: str = "") -> Explain:
    """The same sentence whatever the log says; ``{name}`` takes a named group of the pattern.

    ``plain`` is said when a group is missing.
    """
    return _Sentence(text, plain)


def do(*fixes: Fix | str) -> Fixes:
    """The same fixes whatever the log says; a text takes named groups as ``say`` does."""
    return _SameFixes(fixes)


class _Sentence:
    """A closure would take four times the memory, and there are hundreds."""

    __slots__ = ("_plain", "_text")

    def __init__(self, text: str, plain: str) -> None:
        self._text, self._plain = text, plain

    def __call__(self, seen: Evidence) -> str:
        if self._plain and not set(_PLACE.findall(self._text)) <= seen.groups.keys():
            return self._plain
        return self._text.format_map(_Groups(seen.groups))


class _SameFixes:
    """As `_Sentence` is."""

    __slots__ = ("_fixes",)

    def __init__(self, fixes: tuple[Fix | str, ...]) -> None:
        self._fixes = fixes

    def __call__(self, seen: Evidence) -> list[Fix]:
        groups = _Groups(seen.groups)
        return [fix if isinstance(fix, Fix) else Fix(text=fix.format_map(groups)) for fix in self._fixes]


class _Groups(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return UNKNOWN


def count(value: float | None) -> str:
    """A number of tokens or requests with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def gib(value: float) -> str:
    """GiB with the unit, MiB below one."""
    return f"{value * 1024:.0f} MiB" if value < 1 else f"{value:.1f} GiB"


def _size(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    size = None if match is None else number_of(match["size"])
    return None if match is None or size is None else size * _GIB_OF[match["unit"][0]]


def tried_gib(seen: Evidence) -> float | None:
    """What an allocation asked for."""
    return _size(_TRIED, seen.incident.text)


def free_gib(seen: Evidence) -> float | None:
    """What the GPU had left when an allocation failed."""
    return _size(_FREE, seen.incident.text)


def in_use_gib(seen: Evidence) -> float | None:
    """What this process held when an allocation failed."""
    return _size(_IN_USE, seen.incident.text)


def utilization(seen: Evidence) -> float | None:
    """gpu_memory_utilization in use: as told, else the default of a version that is known."""
    told = seen.arguments.number("gpu_memory_utilization") or seen.figures.get("utilization")
    if told is not None:
        return told
    version = re.match(r"0\.(\d+)", seen.boot.facts.vllm_version or "")
    return _DEFAULT_UTILIZATION if version and int(version[1]) >= 20 else None


def budget(seen: Evidence) -> str:
    """What takes the memory, as far as the log tells: ``weights 18.2 GiB + …``; empty when it does not."""
    weights, there = seen.boot.facts.weights_gib, seen.boot.facts.available_kv_gib
    weights = seen.figures.get("weights_gib", weights) if weights is None else weights
    total, share = seen.figures.get("total_gib"), utilization(seen)
    if weights is None:
        return ""
    if total is None or share is None:
        return f"The weights take {gib(weights)} of each GPU."
    rest = total * share - weights - (there or 0.0)
    others = f" and activations, graphs and the rest {gib(rest)}" if there is not None and rest > 0 else ""
    return f"vLLM may fill {share:g} x {total:g} = {gib(total * share)}; the weights take {gib(weights)}{others}."


def smaller_kv(seen: Evidence) -> list[Fix]:
    """An 8-bit KV cache, unless it is one."""
    kind = str(seen.arguments.get("kv_cache_dtype") or "auto")
    if kind not in ("auto", "bfloat16", "float16") or seen.arguments.get("platform") == "cpu":
        return []
    return [Fix(text="Store the KV cache in 8 bits: it holds twice the tokens.", set={"kv_cache_dtype": "fp8_e4m3"})]


def more_utilization(seen: Evidence) -> list[Fix]:
    """A few hundredths more, where there are any left; a pool pinned in bytes does not follow it."""
    share = utilization(seen)
    if share is None or share >= HIGHEST_UTILIZATION or seen.arguments.get("kv_cache_memory_bytes"):
        return []
    higher = round(min(HIGHEST_UTILIZATION, share + 0.05), 4)
    text = f"Let vLLM fill {higher:g} of the GPU instead of {share:g}, if no other program needs the rest."
    return [Fix(text=text, set={"gpu_memory_utilization": higher})]


def less_utilization(seen: Evidence, by: float = 0.03) -> list[Fix]:
    """A few hundredths less: graphs, sampler and drivers live outside of the share."""
    share = utilization(seen)
    if share is None:
        return [Fix(text=f"Leave more room beside the pool: lower --gpu-memory-utilization by {by:g}.")]
    if share - by < 0.3:
        return []
    lower = round(share - by, 4)
    return [
        Fix(text=f"Leave more room beside the pool: utilization {lower:g}.", set={"gpu_memory_utilization": lower})
    ]


def fewer_sequences(seen: Evidence, most: int = 64) -> list[Fix]:
    """Fewer requests at a time: state, logits and graphs shrink with them."""
    now = seen.arguments.number("max_num_seqs")
    wanted = most if now is None or now > most else int(now) // 2
    if wanted < 1:
        return []
    return [Fix(text=f"Run at most {wanted} requests at a time.", set={"max_num_seqs": wanted})]


def no_graphs(seen: Evidence) -> list[Fix]:
    """Eager mode, unless it is on: graphs cost memory and boot time, and make decoding fast."""
    if seen.arguments.get("enforce_eager") is True:
        return []
    what = "torch.compile" if seen.arguments.get("platform") == "cpu" else "CUDA graphs"
    return [Fix(text=f"As a last resort do without {what}; decoding gets slower.", set={"enforce_eager": "on"})]


def no_draft(seen: Evidence) -> list[Fix]:
    """No speculative decoding, when there is some."""
    if not seen.arguments.chosen("speculative_config") and not seen.arguments.get("speculative_tokens"):
        return []
    return [Fix(text="Turn the draft off: it holds weights and KV of its own.", set={"speculative_tokens": 0})]


def plain_kv(seen: Evidence) -> list[Fix]:
    """The KV type of the model, when another was chosen."""
    if str(seen.arguments.get("kv_cache_dtype") or "auto") == "auto":
        return []
    return [Fix(text="Let the model choose the KV type.", set={"kv_cache_dtype": "auto"})]


def without(flag: str, then: str = "") -> Fix:
    """To leave a flag out, by vLLM's name; ``then`` goes on after it."""
    return Fix(text=f"Leave --{flag.replace('_', '-')} out{then}.", drops=flag)


def added(flag: str, text: str = "") -> Fix:
    """To add a flag, by vLLM's name."""
    name, _, value = flag.partition("=")
    words = f"--{name.replace('_', '-')} {value}".strip()
    return Fix(text=text or f"Add {words}.", adds=flag)


def no_vision(seen: Evidence) -> list[Fix]:
    """Text only, when the model reads images and that was not turned off."""
    arguments = seen.arguments
    off = arguments.get("language_model_only") or arguments.chosen("limit_mm_per_prompt")
    if off or arguments.get("vision") == "off" or not reads_images(seen):
        return []
    return [Fix(text="Leave the vision part out if you only send text.", set={"vision": "off"})]


def reads_images(seen: Evidence) -> bool:
    """Whether the log shows that the model has a vision part in use."""
    name = seen.boot.facts.architecture or ""
    return "ForConditionalGeneration" in name or "VL" in name or "profile-oom-multimodal" in seen.counts


def shorter_context(seen: Evidence) -> list[Fix]:
    """Half the context, when it is known."""
    now = seen.boot.facts.max_model_len or seen.arguments.number("max_model_len")
    if now is None or now < 4096:
        return []
    half = int(now) // 2
    return [Fix(text=f"Halve the context to {half:,} tokens.", set={"max_model_len": half})]


def smaller_model(seen: Evidence) -> list[Fix]:
    """A smaller checkpoint or more GPUs; whether there are more the log does not know."""
    if seen.arguments.get("platform") == "cpu":
        return [Fix(text="Use a smaller model, or a checkpoint with fewer bits.")]
    ranks = int(seen.arguments.number("tensor_parallel_size") or 1)
    quantized = seen.arguments.get("quantization") not in (None, "None")
    model = (
        "a checkpoint with fewer bits"
        if quantized
        else "a quantized checkpoint (AutoRound, AWQ or GPTQ in 4 bits, FP8)"
    )
    return [
        Fix(text=f"Use {model}."),
        Fix(text=f"Split it over more GPUs: tensor parallel {ranks * 2}."),
    ]


def nearest(seen: Evidence, name: str) -> list[Fix]:
    """The word of the message's own list that is most like the one that was given."""
    given = seen.groups.get(name, "")
    listed = _LISTED.search(seen.incident.text.replace("\n", " "))
    words = [] if listed is None else re.findall(r"[\w.-]+", listed["words"])
    meant = did_you_mean(given, [word for word in words if word != given], "", most=2)
    return [Fix(text=meant)] if meant else []


def reason(seen: Evidence) -> str:
    """What the exception says, in one line without its type."""
    shown = shown_exception(seen.incident)
    text = shown.partition(": ")[2] or shown
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON].rpartition(" ")[0] + " …"


def joined(*parts: Callable[[Evidence], list[Fix]]) -> Fixes:
    """The fixes of all parts in their order."""
    return lambda seen: [fix for part in parts for fix in part(seen)]
