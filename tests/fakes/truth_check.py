"""What `cockpit top --url URL --once --json` shows of a truth server, beside what the server claims."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from truth_modes import MODES, Bursts, Encoding, LongPrompts, Truth
from truth_server import TruthServer

WINDOW_SECONDS = 10.0
"""Well inside the first long prompt."""
NO_ANSWER = {
    "slow": "no answer within",
    "truncated": "broke off",
    "cut": "cut short",
    "endless": "passed 4 MiB",
    "drip": "took more than",
    "error": "HTTP 503",
    "death": "stopped answering",
    "key": "asks for a key (HTTP 401). Put it into VLLM_API_KEY",
    "html": "a web page",
    "json": "TensorRT-LLM serves there, not vLLM: the answer is JSON",
    "login": "to another host, as for a login (HTTP 302)",
    "https-only": "Give the URL with https://",
    "api-alone": "a vLLM serves there, but it has no /metrics",
    "sglang-silent": "SGLang serves there, not vLLM",
    "llamacpp-silent": "llama.cpp serves there, not vLLM",
    "ollama": "Ollama serves there, not vLLM",
    "tgi-silent": "text-generation-inference serves there, not vLLM",
    "no-metrics": "no /metrics there (HTTP 404)",
}
"""Modes that end in exit code 1, and what is said."""


@dataclass(frozen=True)
class Shown:
    """What the command gave."""

    mode: str
    code: int
    frame: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure of the frame and the truth about it; None must be shown as null."""

    name: str
    truth: float | None
    shown: float | None
    within: float = 0.02

    @property
    def is_right(self) -> bool:
        if self.truth is None or self.shown is None:
            return self.truth is self.shown
        return abs(self.shown - self.truth) <= self.within * abs(self.truth) + 1e-9


def show(mode: str, seconds: float = WINDOW_SECONDS) -> Shown:
    """Start a server of that mode and look at it through the command line."""
    with TruthServer(mode, hold_seconds=3.0, change_after=seconds / 2, wait_for_first_look=True) as server:
        words = ("top", "--url", f"{server.url}/behind/a/prefix", "--once", "--json", "--seconds", str(seconds))
        env = {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"}
        done = subprocess.run(
            [sys.executable, "-m", "cockpit", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    return Shown(mode, done.returncode, json.loads(done.stdout) if done.returncode == 0 else {}, done.stderr)


def show_all(modes: list[str], at_once: int = 6) -> dict[str, Shown]:
    """The same for many modes, some at a time; what is not right is looked at again, the last time alone.

    On a busy machine an answer may lie for 2 % of the window before it is read: what is wrong is wrong every time.
    """
    found: dict[str, Shown] = {}
    for together in (at_once, at_once, 3, 1):
        wrong = [mode for mode in modes if mode not in found or not _is_right(found[mode])]
        with ThreadPoolExecutor(together) as pool:
            found |= {shown.mode: shown for shown in pool.map(show, wrong)}
    return found


def _is_right(shown: Shown) -> bool:
    if shown.mode in NO_ANSWER:
        return shown.code == 1 and NO_ANSWER[shown.mode] in shown.error
    return shown.code == 0 and all(one.is_right for one in figures(shown))


def figures(shown: Shown) -> list[Figure]:
    """Every figure that has a truth in this mode."""
    mode, frame = MODES[shown.mode], shown.frame
    if shown.mode in {"restart", "engine-restart", "engine-back"} or not mode.engines:
        return _unknown(frame)
    speed, kv, requests = frame["throughput"], frame["kv"], frame["requests"]
    engines = tuple(one for number, one in enumerate(mode.engines) if number not in mode.lost)
    cached = _sum(engines, "cached") + _sum(engines, "external") if mode.names.knows_cached else None
    computed = _sum(engines, "computed") + (0.0 if mode.names.knows_cached else _sum(engines, "cached"))
    share = _duty(engines, frame["window_seconds"])
    has_capacity = mode.names.pool_in_tokens and all(one.capacity_tokens is not None for one in engines)
    capacity = _sum(engines, "capacity_tokens") if has_capacity else None
    decode, stream = (None, None) if shown.mode == "nan" else (_decode(engines) * share, _stream(engines))
    return [
        Figure("prefill tok/s", computed * share, speed["prefill_tokens_per_second"]),
        Figure("cached tok/s", None if cached is None else cached * share, speed["cached_prefill_tokens_per_second"]),
        Figure("decode tok/s", decode, speed["decode_tokens_per_second"]),
        Figure("decode tok/s a stream", stream, speed["decode_tokens_per_second_per_request"]),
        Figure("KV capacity, tokens", capacity, kv["capacity_tokens"], 0.0),
        *_now(engines, requests, kv, shown.mode),
        Figure("preemptions/s", _sum(engines, "preemptions") * share, requests["preemptions_per_second"], 0.25),
        *_latencies(engines, frame["latency"]),
        *_shares(engines, frame),
        *_totals(shown),
    ]


def _now(engines: tuple[Truth, ...], requests: dict[str, Any], kv: dict[str, Any], mode: str) -> list[Figure]:
    """Gauges, where they stand still."""
    if any(isinstance(one, (LongPrompts, Bursts, Encoding)) for one in engines):
        return []
    weights = [one.capacity_tokens for one in engines]
    is_known = mode != "nan" and None not in weights
    used = sum(one.used_fraction * weight for one, weight in zip(engines, weights, strict=True)) if is_known else None
    in_tokens = is_known and MODES[mode].names.pool_in_tokens and not any(one.extra_blocks for one in engines)
    return [
        Figure("KV used, share", used / sum(weights) if is_known else None, kv["used_fraction"], 1e-6),
        Figure("KV used, tokens", used if in_tokens else None, kv["used_tokens"], 1e-4),
        Figure("running", _sum(engines, "running"), requests["running"], 0.0),
        Figure("waiting", _sum(engines, "waiting"), requests["waiting"], 0.0),
    ]


def _latencies(engines: tuple[Truth, ...], latency: dict[str, Any]) -> list[Figure]:
    """Means and percentiles; values lie evenly between two bounds of buckets, so that buckets give the exact p95."""
    one, found = engines[0], []
    if isinstance(one, LongPrompts):
        return []
    for name, key, (low, high), rate in (
        ("TTFT", "ttft_seconds", one.ttft, one.requests),
        ("inter-token", "inter_token_seconds", one.inter_token, one.steps),
    ):
        p95 = None if not rate else min(10.0, low + 0.95 * (high - low))
        found.append(Figure(f"{name} mean, s", (low + high) / 2 if rate else None, latency[key]["mean"]))
        found.append(Figure(f"{name} p95, s", p95, latency[key]["p95"]))
    return found


def _totals(shown: Shown) -> list[Figure]:
    """Requests that ended, for whatever reason, where that is what the mode is about."""
    if shown.mode != "finish-reasons":
        return []
    finished = MODES[shown.mode].engines[0].requests * shown.frame["window_seconds"]
    return [Figure("requests finished", finished, shown.frame["totals"]["requests_finished"], 0.02)]


def _shares(engines: tuple[Truth, ...], frame: dict[str, Any]) -> list[Figure]:
    """Hits of the caches, and draft acceptance."""
    external, hits = _sum(engines, "external"), _sum(engines, "cached")
    prompt = _sum(engines, "computed") + hits + external
    known = hits / prompt if prompt and not isinstance(engines[0], LongPrompts) else None
    found = [Figure("prefix hits, share", known, frame["prefix_cache"]["hit_fraction_window"])]
    if external:
        found.append(
            Figure("by KV connector, share", external / prompt, frame["prefix_cache"]["external_hit_fraction_window"])
        )
    if engines[0].images:
        shown = frame["prefix_cache"]["multimodal_hit_fraction_window"]
        found.append(Figure("image cache hits, share", engines[0].image_hits, shown))
    if engines[0].drafts is None:
        return found
    draft = frame["speculative"]
    shares = engines[0].accepted_shares
    found.append(Figure("acceptance length", 1 + sum(shares), draft["acceptance_length"]))
    found.append(Figure("acceptance, share", sum(shares) / engines[0].draft_depth, draft["acceptance_fraction"]))
    for position, share in enumerate(shares):
        found.append(Figure(f"accepted at {position}, share", share, draft["acceptance_per_position"][position]))
    return found


def _unknown(frame: dict[str, Any]) -> list[Figure]:
    """After a restart, and of a server that is no vLLM, no rate is known."""
    speed = frame["throughput"]
    return [Figure(name, None, speed[name], 0.0) for name in sorted(speed) if name.endswith("_second")]


def _sum(engines: tuple[Truth, ...], name: str) -> float:
    return sum(getattr(one, name) for one in engines)


def _duty(engines: tuple[Truth, ...], seconds: float) -> float:
    """Share of the window, which begins with the engines' work, in which they work."""
    one = engines[0]
    return one.credited(seconds) / seconds if isinstance(one, Bursts) else 1.0


def _decode(engines: tuple[Truth, ...]) -> float:
    """Nothing is decoded within the first long prompt."""
    return 0.0 if isinstance(engines[0], LongPrompts) else _sum(engines, "decode")


def _stream(engines: tuple[Truth, ...]) -> float | None:
    """Tokens after the first ones, a second of the streams' decoding."""
    if isinstance(engines[0], LongPrompts) or not _sum(engines, "steps"):
        return None
    seconds = sum(one.steps * sum(one.inter_token) / 2 for one in engines)
    return (_sum(engines, "decode") - _sum(engines, "requests")) / seconds
