"""Short and long prompts with repeats, whose computed, cached and generated tokens the client knows by itself."""

from __future__ import annotations

import json
import random
import threading
import urllib.request
from dataclasses import dataclass

BLOCK_TOKENS = 128
"""Of the CPU build: a prefix is shared in whole blocks, and the last token of a prompt is always computed."""
SHORT_TOKENS, LONG_TOKENS = 50, 1500
_IDS = range(100, 400)


@dataclass
class Tokens:
    """What ended requests have cost, by the client's own count."""

    computed: int = 0
    cached: int = 0
    generated: int = 0
    requests: int = 0


class MixedLoad:
    """Threads that send a new prompt, and then the same one again, until stopped; requests in flight are finished."""

    def __init__(
        self,
        url: str,
        model: str,
        streams: int = 2,
        answer_tokens: int = 60,
        block_tokens: int = BLOCK_TOKENS,
        name: str = "mixed",
    ) -> None:
        """Loads of one name send the same prompts."""
        self._name = name
        self._url = f"{url}/v1/completions"
        self._model = model
        self._answer_tokens = answer_tokens
        self._block_tokens = block_tokens
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self.tokens = Tokens()
        self._threads = [threading.Thread(target=self._run, args=(seed,), daemon=True) for seed in range(streams)]

    def start(self) -> None:
        """Begin sending."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> Tokens:
        """Send nothing more, wait for what is in flight, and give the count; raises what a stream ended with."""
        self._stop.set()
        for thread in self._threads:
            thread.join(600)
        for error in self._errors:
            raise error
        return self.tokens

    def _run(self, seed: int) -> None:
        chance = random.Random(f"{self._name} {seed}")
        turn = 0
        try:
            while not self._stop.is_set():
                size = LONG_TOKENS if turn % 3 == 2 else SHORT_TOKENS
                prompt = [chance.choice(_IDS) for _ in range(size)]
                self._ask(prompt, cached=0)
                if turn % 2 == 0:
                    self._ask(prompt, cached=(size - 1) // self._block_tokens * self._block_tokens)
                turn += 1
                self._stop.wait(0.1)
        except (OSError, ValueError, KeyError) as error:
            self._errors.append(error)

    def _ask(self, prompt: list[int], cached: int) -> None:
        """One request of token ids, so that nothing but the server's model stands between both counts."""
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": self._answer_tokens,
            "ignore_eos": True,
        }
        request = urllib.request.Request(
            self._url, json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            usage = json.load(response)["usage"]
        assert usage["prompt_tokens"] == len(prompt)
        with self._lock:
            self.tokens.computed += len(prompt) - cached
            self.tokens.cached += cached
            self.tokens.generated += usage["completion_tokens"]
            self.tokens.requests += 1
