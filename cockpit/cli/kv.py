"""`cockpit kv CONFIG`: the KV cache that vLLM makes of so many GiB, to the token."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cockpit.cli.options import session_of, verb
from cockpit.cli.output import emit, say, tell
from cockpit.errors import CockpitError
from cockpit.units import GIB, gib, tokens

if TYPE_CHECKING:
    from cockpit.catalog.load import Entry
    from cockpit.catalog.slug import Slug
    from cockpit.checkpoint.types import Checkpoint
    from cockpit.planner.types import KvForecast, KvLayout, KvSettings, KvUnknown
    from cockpit.session import Session

_MAX_TOKENS = 16 * 1024**2
_MAX_GIB = 1 << 20


def _whole(low: int, high: int) -> Any:
    """An argument's type: a whole number between two bounds, with vLLM's suffixes k, K, m and M."""

    def parse(text: str) -> int:
        from cockpit.launch.values import Whole

        try:
            number: int = Whole(low=low, high=high).parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} cannot be used, {error}") from error
        return number

    return parse


def _gib(text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not 0 < size <= _MAX_GIB:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} cannot be used, use GiB such as 8.97")
    return size


def _capability(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} cannot be used, use a compute capability such as 8.6")
    return int(match.group(1)), int(match.group(2))


def _version(text: str) -> str:
    from cockpit.planner.versions import release_of

    if release_of(text) is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} cannot be used, use a vLLM version such as 0.33.0")
    return text


def _dtype(text: str) -> str:
    from cockpit.planner.pages import known_type

    if not known_type(text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no type of KV cache, use e.g. auto, bfloat16 or fp8")
    return text


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    parser = verb(verbs, "kv", "say how many tokens of KV cache so many GiB make", run)
    parser.add_argument(
        "config", metavar="CONFIG", help="a checkpoint's folder, a config.json, a cached owner/name, or a slug"
    )
    parser.add_argument(
        "--available-gib", metavar="X", type=_gib, required=True, help="GiB for the KV cache on each GPU"
    )
    parser.add_argument("--tensor-parallel", metavar="N", type=_whole(1, 64), help="GPUs that share each layer")
    parser.add_argument("--kv-cache-dtype", metavar="D", type=_dtype, help="type of the KV cache, e.g. fp8")
    parser.add_argument(
        "--speculative-tokens", metavar="N", type=_whole(0, 16), help="tokens that the MTP head drafts a step"
    )
    parser.add_argument("--max-model-len", metavar="N", type=_whole(1, _MAX_TOKENS), help="context in tokens")
    parser.add_argument("--prefix-caching", choices=("on", "off"), help="vLLM's default where it is not given")
    parser.add_argument("--max-num-batched-tokens", metavar="N", type=_whole(1, _MAX_TOKENS), help="tokens of a step")
    parser.add_argument("--platform", choices=("cuda", "cpu"), help="the vLLM build; cuda unless the slug says cpu")
    parser.add_argument("--engine-version", metavar="V", type=_version, help="vLLM's version, e.g. 0.33.0")
    parser.add_argument("--capability", metavar="C", type=_capability, help="compute capability of the GPU, e.g. 8.6")


class _Source(NamedTuple):
    """What CONFIG names."""

    checkpoint: Checkpoint
    slug: Slug | None = None
    basis: Literal["files", "declared"] = "files"
    """Whether the checkpoint was read, or is what the slug declares, as its files are not here."""


def _source(name: str) -> _Source:
    """What CONFIG names: a path, else a slug, else a repository in the cache. Raises CockpitError for none."""
    from pathlib import Path

    from cockpit.checkpoint.inspect import inspect

    there = "\0" not in name and len(name) < 4096 and Path(name).expanduser().exists() if name else False
    if not there:
        session = session_of(argparse.Namespace(rig=None))
        for entry in session.catalog.entries:
            if name in (entry.slug.name, *entry.slug.aliases):
                return _of_slug(session, entry)
    return _Source(inspect(name))


def _of_slug(session: Session, entry: Entry) -> _Source:
    """A slug's checkpoint: its files where they are here, else what the slug declares, as for `plan`."""
    from cockpit.checkpoint.inspect import inspect

    answer = session.checkpoint_of(entry)
    if answer.checkpoint is not None:
        return _Source(answer.checkpoint, entry.slug)
    declared = session.declared(entry) if answer.problem is None else None
    if declared is None:
        return _Source(inspect(entry.model_source), entry.slug)
    tell(f"· the files of {entry.model_source} are not here: this is what {entry.slug.name} declares.")
    return _Source(declared, entry.slug, "declared")


def _settings(arguments: argparse.Namespace, checkpoint: Checkpoint, slug: Slug | None) -> KvSettings:
    """Options, else what the slug says, else the checkpoint's own context and vLLM's defaults."""
    from cockpit.launch.forecast import whole_number
    from cockpit.planner.types import KvSettings

    flags = slug.flags if slug else {}
    spec = slug.speculative if slug else None
    length = arguments.max_model_len or (slug.max_model_len if slug else checkpoint.max_model_len)
    if length is None:
        raise CockpitError(
            f"{arguments.config[:80]} does not say how long its context is", fix="Give --max-model-len."
        )
    prefix = arguments.prefix_caching or (slug.prefix_caching if slug else None)
    drafted = arguments.speculative_tokens
    return KvSettings(
        max_model_len=length,
        tensor_parallel=arguments.tensor_parallel or (slug.tensor_parallel if slug else 1),
        kv_cache_dtype=arguments.kv_cache_dtype or (slug.kv_cache_dtype if slug else "auto"),
        speculative_tokens=(spec.tokens if spec else 0) if drafted is None else drafted,
        speculative_method=spec.method if spec else "mtp",
        prefix_caching=None if prefix is None else prefix == "on",
        platform=arguments.platform or (slug.platform if slug else "cuda"),
        engine_version=arguments.engine_version,
        capability=arguments.capability,
        max_num_batched_tokens=arguments.max_num_batched_tokens or whole_number(flags.get("max-num-batched-tokens")),
        vision=slug is not None and slug.weights.vision and flags.get("language-model-only") is not True,
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it. Exit 1 where the KV cache of the model is not known, 2 for a CONFIG that cannot be read."""
    from cockpit.launch.forecast import not_modelled
    from cockpit.planner.families import kv_model
    from cockpit.planner.kv import forecast_layout, largest_length
    from cockpit.planner.layout import kv_layout
    from cockpit.planner.types import KvUnknown

    checkpoint, slug, basis = _source(arguments.config)
    settings = _settings(arguments, checkpoint, slug)
    available = int(arguments.available_gib * GIB)
    reason = not_modelled(slug.flags, pool_alone=True) if slug else None
    model = kv_model(checkpoint) if reason is None else KvUnknown(reason=reason)
    layout = model if isinstance(model, KvUnknown) else kv_layout(model, settings)
    if isinstance(layout, KvUnknown):
        return _unknown(arguments, layout, basis)
    forecast = forecast_layout(layout, settings.max_model_len, available)
    longest = largest_length(layout, available, max(settings.max_model_len, checkpoint.max_model_len or 0))
    if arguments.json:
        emit({**kv_json(forecast, longest), "max_num_batched_tokens": layout.batched_tokens, "checkpoint": basis})
        return 0
    _print(forecast, layout, settings, longest, available)
    return 0


def kv_json(forecast: KvForecast | KvUnknown, largest_max_model_len: int | None = None) -> dict[str, Any]:
    """`cockpit kv --json`; every figure is null where there is no forecast, and ``unknown`` says why."""
    from cockpit.planner.types import KvForecast, KvUnknown

    figures = KvForecast.__struct_fields__
    if isinstance(forecast, KvUnknown):
        return {**dict.fromkeys(figures), "largest_max_model_len": None, "unknown": forecast.reason}
    values = {name: getattr(forecast, name) for name in figures}
    return {**values, "largest_max_model_len": largest_max_model_len, "unknown": None}


def _unknown(arguments: argparse.Namespace, unknown: KvUnknown, basis: str) -> int:
    """Say why there is no forecast; exit 1."""
    if arguments.json:
        emit({**kv_json(unknown), "checkpoint": basis})
    else:
        say(f"unknown       {unknown.reason}.")
    return 1


def _print(forecast: KvForecast, layout: KvLayout, settings: KvSettings, longest: int, available: int) -> None:
    groups, each = len(layout.groups), "" if settings.platform == "cpu" else " a GPU"
    say(f"capacity      {tokens(forecast.capacity_tokens)} tokens in {gib(available, 2)} GiB{each}")
    say(
        f"requests      {forecast.max_concurrency:.2f} of {tokens(settings.max_model_len)} tokens each"
        f" ({forecast.blocks_per_request:,} blocks a request)"
    )
    say(
        f"blocks        {forecast.blocks:,} of {forecast.block_size_tokens:,} tokens and"
        f" {forecast.bytes_per_block:,} bytes, {groups} layer group{'s' if groups != 1 else ''}"
    )
    if layout.batched_tokens is not None:
        say(f"steps         {tokens(layout.batched_tokens)} tokens; windowed layers hold them beside their window")
    if forecast.fits:
        say(f"context       fits; the longest that does is {tokens(longest)} tokens")
    else:
        say(
            f"context       does not fit: one request needs {gib(forecast.bytes_needed, 2)} GiB;"
            f" the longest that fits is {tokens(longest)} tokens"
        )
