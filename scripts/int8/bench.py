"""Prefill and single-stream decode of one running server, by the clock of its only client. Standard library only.

python scripts/int8/bench.py URL [MODEL]        JSON on stdout, tokens per second
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable

PROMPTS = (2000, 8000)
"""Tokens of the prompts whose prefill is measured."""
WARMING = 4
REPEATS = 16
DECODED = 256
PATIENCE_SECONDS = 300


def prompt(tokens: int, source: random.Random) -> list[int]:
    """Random ids, so that no prefix of one is in the cache of another."""
    return [source.randrange(10, 500) for _ in range(tokens)]


def client(url: str, model: str) -> Callable[[list[int], int], float]:
    """A function of (prompt ids, tokens to generate) that gives the seconds of one request."""

    def seconds(ids: list[int], generate: int) -> float:
        body = {"model": model, "prompt": ids, "max_tokens": generate, "min_tokens": generate}
        body |= {"temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(
            f"{url.rstrip('/')}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            json.load(answer)
        return time.perf_counter() - began

    return seconds


def measure(
    url: str, model: str = "m", prompts: tuple[int, ...] = PROMPTS, repeats: int = REPEATS, decoded: int = DECODED
) -> dict[str, float]:
    """Medians in tokens per second by what was measured; everything is warmed up first.

    A prefill is a prompt's tokens over the time of a request for one token; lengths take turns, so that a moment in
    which the machine is slow does not fall on one of them. Decode is ``decoded`` tokens over what they take longer
    than one token of the same prompt, whose prefix is cached in both.
    """
    request, source = client(url, model), random.Random(1)
    for _ in range(WARMING):
        for tokens in prompts:
            request(prompt(tokens, source), 1)
    taken: dict[int, list[float]] = {tokens: [] for tokens in prompts}
    for _ in range(repeats):
        for tokens in prompts:
            taken[tokens].append(request(prompt(tokens, source), 1))
    rates = {f"prefill {tokens}": tokens / statistics.median(seconds) for tokens, seconds in taken.items()}
    request(prompt(64, source), 32)
    streams = []
    for _ in range(max(2, repeats // 2)):
        ids = prompt(64, source)
        request(ids, 1)
        one = request(ids, 1)
        streams.append(decoded / (request(ids, decoded + 1) - one))
    return rates | {"decode": statistics.median(streams)}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:3])))
