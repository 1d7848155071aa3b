"""A trickle of real chat requests, counted by the client, so that figures move and can be checked."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import httpx

_TOPICS = (
    "a harbour at night", "how bread rises", "the rules of chess", "why the sky is blue", "a letter to a friend",
    "planting an apple tree", "the history of maps", "repairing a bicycle", "rain on a tin roof", "counting stars",
)  # fmt: skip


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What the client saw since the load began."""

    requests: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    """Of requests whose first token has arrived."""
    generated_tokens: int = 0
    last_error: str = ""


class _Usage(msgspec.Struct, frozen=True):
    """What a server says it has counted in one request so far."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct, frozen=True):
    """One event of a streamed answer, as far as it is read here."""

    usage: _Usage | None = None


class Load:
    """Background threads that send chat requests one after another until stopped.

    ``streams`` requests run at the same time; ``pause_seconds`` lies between two requests of one stream;
    ``answer_tokens`` is the length of the first stream's answers, each further stream's are a fifth longer.
    Every second prompt of a stream repeats an earlier one, so that the prefix cache has something to hit.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        streams: int = 3,
        pause_seconds: float = 0.2,
        answer_tokens: int = 200,
        prompt_words: int = 60,
        api_key: str | None = None,
    ) -> None:
        self._url = url.rstrip("/") + "/v1/chat/completions"
        self._model = model
        self._pause_seconds = pause_seconds
        self._answer_tokens = answer_tokens
        self._prompt_words = prompt_words
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._counts = Counts()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True, name=f"load-{number}")
            for number in range(streams)
        ]

    def start(self) -> None:
        """Begin sending, a thread a stream, until `stop`."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> Counts:
        """Stop sending; requests in flight are cut off. Returns the final counts."""
        self._stop.set()
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return self.counts()

    def counts(self) -> Counts:
        """What was seen so far; tokens of answers in flight are counted as they arrive."""
        with self._lock:
            return self._counts

    def _add(self, **changes: int) -> None:
        with self._lock:
            fields = {name: getattr(self._counts, name) + value for name, value in changes.items()}
            self._counts = msgspec.structs.replace(self._counts, **fields)

    def _failed(self, reason: str) -> None:
        with self._lock:
            self._counts = msgspec.structs.replace(
                self._counts, failures=self._counts.failures + 1, last_error=reason[:200]
            )

    def _prompts(self, stream: int) -> Iterator[str]:
        for turn in itertools.count():
            topic = _TOPICS[(stream * 3 + turn // 2) % len(_TOPICS)]
            filler = " ".join(f"{topic} {turn // 2}.{word}" for word in range(self._prompt_words // 4))
            yield f"Write about {topic}. {filler}"

    def _run(self, stream: int) -> None:
        import httpx

        with httpx.Client(timeout=httpx.Timeout(30.0), trust_env=False, headers=self._headers) as client:
            # Streams of one length would fall into step: all of them at work, then none.
            answer_tokens = self._answer_tokens + stream * self._answer_tokens // 5
            for prompt in self._prompts(stream):
                if self._stop.is_set():
                    return
                try:
                    self._ask(client, prompt, answer_tokens)
                except (httpx.HTTPError, msgspec.DecodeError, RecursionError) as error:
                    self._failed(f"{type(error).__name__}: {error}")
                    self._stop.wait(1.0)
                self._stop.wait(self._pause_seconds)

    def _ask(self, client: httpx.Client, prompt: str, answer_tokens: int) -> None:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": answer_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        seen_completion = 0
        prompt_counted = False
        with client.stream("POST", self._url, json=body) as response:
            if response.status_code != 200:
                self._failed(f"HTTP {response.status_code}")
                return
            for line in response.iter_lines():
                if self._stop.is_set():
                    return
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                usage = msgspec.json.decode(line.removeprefix("data: "), type=_Chunk).usage or _Usage()
                completion = usage.completion_tokens or 0
                self._add(generated_tokens=max(0, completion - seen_completion))
                seen_completion = max(seen_completion, completion)
                if not prompt_counted and completion > 0:
                    prompt_counted = True
                    self._add(prompt_tokens=usage.prompt_tokens or 0)
        self._add(requests=1)
