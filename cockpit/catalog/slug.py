"""A slug: one recipe for serving one model. Frozen, and complete once loaded."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from cockpit.units import GIB

Format = Literal["auto-round", "compressed-tensors", "gptq", "awq", "fp8", "nvfp4", "mxfp4", "bf16", "fp16"]
Platform = Literal["cuda", "cpu"]
Scalar = str | int | float | bool
FlagValue = Scalar | list[str | int | float] | dict[str, Scalar]
"""A flag's value: true is a bare flag, a list repeats as words, a mapping becomes one JSON word."""

# Python lets `$` match before a last line break; the lookahead does not, and JSON Schema understands it too.
SlugName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$(?!\n)", max_length=80)]
RepoName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*$(?!\n)")]
"""``owner/name``: neither may begin with a dash, which the command line would take for a flag."""
FlagName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*$(?!\n)")]
EnvName = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]*$(?!\n)")]
PositiveInt = Annotated[int, Meta(ge=1)]
Ranks = Annotated[int, Meta(ge=1, le=64)]
Tokens = Annotated[int, Meta(ge=16, le=16 * 1024 * 1024)]
Fraction = Annotated[float, Meta(gt=0, le=1)]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every recipe part: immutable, and unknown keys are errors."""


class Weights(Struct, frozen=True, kw_only=True):
    """The checkpoint, as its recipe declares it. Exactly one of ``repo`` and ``path`` is given."""

    format: Format
    repo: RepoName | None = None
    """Hugging Face repository, ``owner/name``."""
    path: str | None = None
    """Checkpoint folder; a relative one starts at the slug file's folder."""
    bits: Annotated[int, Meta(ge=1, le=32)] | None = None
    """Bits of the linear layers; None for mixed widths."""
    widths: list[Annotated[int, Meta(ge=1, le=32)]] = []
    """Every width of a mixed checkpoint."""
    symmetric: bool | None = None
    group_size: Annotated[int, Meta(ge=-1)] | None = None
    moe: bool = False
    embedding_bits: Annotated[int, Meta(ge=1, le=32)] | None = None
    """Bits of a quantized embed_tokens; None when it is not quantized."""
    vision: bool = False
    """The checkpoint has a vision tower."""
    mtp: bool = False
    """The checkpoint has a multi-token-prediction head."""
    size_gib: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """GiB on disk."""
    bits_per_weight: Annotated[float, Meta(gt=0, le=64)] | None = None
    native_max_model_len: PositiveInt | None = None
    """The longest context in tokens that the model was made for."""
    architecture: str | None = None
    """A config.json with the model's dimensions, for forecasts before its files are here; a relative path starts at
    the slug file's folder. Quantization in it does not count."""

    @property
    def size_bytes(self) -> int | None:
        """Bytes on disk as declared, or None."""
        return None if self.size_gib is None else round(self.size_gib * GIB)

    @property
    def label(self) -> str:
        """Short text for tables: ``AutoRound W4``, ``INT5/6/7/8 mixed``, ``FP8``."""
        if self.widths:
            return f"INT{'/'.join(str(width) for width in sorted(set(self.widths)))} mixed"
        names = {"auto-round": "AutoRound", "compressed-tensors": "CT", "gptq": "GPTQ", "awq": "AWQ"}
        name = names.get(self.format)
        if name is None:
            return self.format.upper()
        text = name if self.bits is None else f"{name} W{self.bits}"
        return f"{text} MoE" if self.moe else text


class Speculative(Struct, frozen=True, kw_only=True):
    """Speculative decoding."""

    method: Literal["mtp", "eagle", "eagle3", "dflash", "ngram", "suffix", "draft_model"]
    tokens: Annotated[int, Meta(ge=1, le=16)]
    model: str | None = None
    """Repository or folder of a separate draft model."""


class Quality(Struct, frozen=True, kw_only=True):
    """Published quality against the unquantized model; comparable only within one ``group``."""

    kld: Annotated[float, Meta(ge=0)] | None = None
    """Mean Kullback-Leibler divergence."""
    top1_fraction: Fraction | None = None
    """Share of positions whose most likely token is the same."""
    group: str = ""
    """Figures of one group were measured the same way."""
    source: str = ""


class Slug(Struct, frozen=True, kw_only=True):
    """One recipe, named ``engine/name``."""

    name: SlugName
    model: str
    """The model's name for people, e.g. ``Qwen3.6-27B``."""
    weights: Weights
    aliases: list[SlugName] = []
    description: str = ""
    sources: list[str] = []
    platform: Platform = "cuda"
    """The vLLM build it needs."""
    tensor_parallel: Ranks = 1
    max_model_len: Tokens
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: Fraction | None = None
    max_num_seqs: Annotated[int, Meta(ge=1, le=4096)] | None = None
    speculative: Speculative | None = None
    int8: Literal["on", "off"] = "off"
    """Whether int8 activations are on by default, where they are allowed."""
    prefix_caching: Literal["on", "off"] | None = None
    """None leaves vLLM's own default."""
    enforce_eager: Literal["on", "off"] = "off"
    served_model_name: str | None = None
    """The name in the API; the slug's own name without the engine when absent."""
    flags: dict[FlagName, FlagValue] = {}
    """Further ``vllm serve`` flags without the dashes; those with a key of their own above are refused."""
    env: dict[EnvName, str] = {}
    """Further environment of the server."""
    quality: Quality | None = None

    @property
    def short_name(self) -> str:
        """The name without its engine, e.g. ``dual``."""
        return self.name.split("/", 1)[1]

    @property
    def api_name(self) -> str:
        """What the server calls the model."""
        return self.served_model_name or self.short_name
