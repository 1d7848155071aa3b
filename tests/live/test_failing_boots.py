"""Real boots of the CPU build that must fail: each ends on the screen in the right sentence at once, and with `f`,
where a new start can help, it is started again and becomes ready."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import socket
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import msgspec
import pytest
from tui.helpers import (
    Cockpit,
    app_of,
    command_shown,
    open_card,
    opened,
    shown,
    until,
    until_shown,
    until_told,
    words_of,
)
from tui.world import tiny_model, write_slug

from cockpit.launch.types import LaunchPlan
from cockpit.session import Session
from cockpit.supervisor import store
from cockpit.supervisor.record import InstanceRecord
from cockpit.tui.screens.instance import InstanceScreen

pytestmark = pytest.mark.live
_BOOT_SECONDS = 1200.0
_AT_A_TIME = 2
"""Cockpits with a boot each, which is one core's work for half a minute; another file may boot one beside them."""


def _nothing(_folder: Path) -> None:
    return


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a slug, what its card says of it, and what the screen must say when it is dead."""

    slug: str = ""
    """Further lines of YAML."""
    flags: str = ""
    """Of the slug, as YAML."""
    pool: str = 'VLLM_CPU_KVCACHE_SPACE: "1"'
    """The variable that sizes it."""
    spoil: Callable[[Path], None] = _nothing
    """Changes the copy of the tiny model that is served."""
    steal_port: bool = False
    """Another program takes its port while it starts."""
    beyond: tuple[str, ...] = ()
    """What the command gets besides when it is started past the rules."""
    refusal: str | None = None
    """Why the card does not start it; then it is started past the rules."""
    sentence: str | None
    """On the screen of the dead server; None: it becomes ready."""
    fix: tuple[str, str, str] | None = None
    """A flag that `f` changes, with its old and its new value; None where no new start helps by itself."""


def _without(*names: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def _other_class(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["NoSuchModelForCausalLM"]}))


def _cut(folder: Path) -> None:
    whole = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(whole[: len(whole) // 2])


FAULTS = {
    "class": Fault(spoil=_other_class, sentence="This vLLM has no model class for 'NoSuchModelForCausalLM'."),
    "path": Fault(
        spoil=shutil.rmtree,
        refusal="no such folder or file",
        sentence="vLLM took the path for the name of a repository.",
    ),
    "port": Fault(steal_port=True, sentence="is taken by another program.", fix=("--port", "", "")),
    "context": Fault(
        slug="max_model_len: 100000",
        refusal="context 100,000 is longer than the model's own 4,096 tokens",
        sentence="The context of 100,000 tokens is longer than the 4,096 that the checkpoint states.",
        fix=("--max-model-len", "100000", "4096"),
    ),
    "pool": Fault(
        flags="kv-cache-memory-bytes: 1048576",
        pool="VLLM_NO_USAGE_STATS: '1'",
        refusal="the KV pool has 1.0 MiB as the slug says, one request of 2,048 tokens needs",
        sentence="One request of 2,048 tokens does not fit the KV pool",
        fix=("--max-model-len", "2048", "1920"),
    ),
    "flag": Fault(
        flags="swap-space: 4",
        refusal="does not know --swap-space",
        sentence="This vLLM does not know --swap-space.",
    ),
    "heads": Fault(
        slug="tensor_parallel: 3",
        beyond=("--tensor-parallel-size", "3"),
        refusal="4 attention heads cannot be shared by 3",
        sentence="4 attention heads (or the layer's size) cannot be cut into 3 equal parts, one a GPU.",
    ),
    "tokenizer": Fault(
        spoil=_without("tokenizer.json"),
        refusal="has no tokenizer (tokenizer.json, tokenizer.model or tekken.json)",
        sentence="The model's folder has no usable tokenizer (tokenizer.json, tokenizer.model or tekken.json).",
    ),
    "cut-tokenizer": Fault(
        spoil=_cut,
        refusal="tokenizer.json is cut off",
        sentence="A tokenizer file of the model (tokenizer.json, most likely) is cut off, or not what its name says.",
    ),
    # Without tokenizer_config.json too, transformers makes an empty vocabulary: only the card can tell.
    "no-tokenizer-at-all": Fault(
        spoil=_without("tokenizer.json", "tokenizer_config.json"),
        refusal="has no tokenizer (tokenizer.json, tokenizer.model or tekken.json)",
        sentence=None,
    ),
}


class Outcome(msgspec.Struct):
    """What became of a boot."""

    notice_seconds: float | None = None
    """From the end of its process to the sentence on the screen."""
    ready_again: bool = False
    error: BaseException | None = None


class _Faulty:
    """One faulty slug in a cockpit of its own."""

    def __init__(self, name: str, fault: Fault, folder: Path, starting: asyncio.Lock) -> None:
        self.slug, self.fault, self._starting = f"cpu/{name}", fault, starting
        self.outcome = Outcome()
        self._thief = socket.socket()
        model = folder / name
        shutil.copytree(tiny_model(), model)
        fault.spoil(model)
        length = "" if "max_model_len" in fault.slug else "max_model_len: 2048\n"
        write_slug(
            f"cpu-{name}",
            f"name: {self.slug}\nmodel: a faulty one\nplatform: cpu\nmax_num_seqs: 8\nenforce_eager: on\n{length}"
            f"weights: {{format: bf16, path: {model}, native_max_model_len: 4096}}\n"
            f"flags: {{load-format: dummy, {fault.flags}}}\n"
            f'env: {{{fault.pool}, HF_HUB_OFFLINE: "1", DO_NOT_TRACK: "1"}}\n{fault.slug}\n',
        )

    async def run(self) -> None:
        """From its card to its death or readiness, and with `f` to the next."""
        with self._thief:
            async with opened(Session()) as pilot:
                record = await self._start(pilot)
                if self.fault.sentence is None:
                    await until_shown(pilot, "● ready", seconds=_BOOT_SECONDS)
                    await self._stop(pilot)
                    return
                await self._die(pilot, record)
                if self.fault.fix is None:
                    assert "[f] start again" not in shown(pilot)
                else:
                    await self._start_again(pilot)
                    await self._stop(pilot)

    async def _start(self, pilot: Cockpit) -> InstanceRecord:
        async with self._starting:
            card = await open_card(pilot, self.slug)
            assert card.plan is not None and f"--served-model-name {self.slug[4:]}" in command_shown(pilot)
            if self.fault.refusal is not None:
                # The engine is asked for its flags once: that takes as long as it needs to import torch.
                await until(pilot, lambda: "✕" in shown(pilot) and self._is_refused(pilot), _BOOT_SECONDS)
            await pilot.press("S")
            if self.fault.refusal is not None:
                await until(pilot, lambda: "not started: " in shown(pilot) and self._is_refused(pilot))
                plan = card.plan
                await asyncio.to_thread(app_of(pilot).session.start, _past_the_rules(plan, self.fault.beyond))
                app_of(pilot).call_later(app_of(pilot).show_instance, store.find(self.slug).name, True)
            await until(pilot, lambda: isinstance(pilot.app.screen, InstanceScreen))
            record = store.find(self.slug)
            if self.fault.steal_port:
                # Connections of an earlier server may linger on the port.
                self._thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._thief.bind((record.host, record.port))
                self._thief.listen()
        await until_shown(pilot, "◐ starting")
        return record

    def _is_refused(self, pilot: Cockpit) -> bool:
        return self.fault.refusal is not None and self.fault.refusal in words_of(shown(pilot))

    async def _die(self, pilot: Cockpit, record: InstanceRecord) -> None:
        assert record.process is not None and self.fault.sentence is not None
        end = asyncio.create_task(asyncio.to_thread(_end_of, record.process.pid))
        sentence = self.fault.sentence
        await until(pilot, lambda: "✕ dead" in shown(pilot) and sentence in words_of(shown(pilot)), _BOOT_SECONDS)
        self.outcome.notice_seconds = time.monotonic() - await end

    async def _start_again(self, pilot: Cockpit) -> None:
        assert self.fault.fix is not None
        flag, old, new = self.fault.fix
        dead = store.find(self.slug)
        await until_shown(pilot, f"[f] start again with {flag} {new}", "f fix")
        async with self._starting:
            await pilot.press("f")
            await until_shown(pilot, "Start ", f"- {flag} {old}", f"+ {flag} {new}")
            assert store.find(self.slug) == dead, "nothing starts before it was seen"
            await pilot.press("enter")
            await until_shown(pilot, "◐ starting")
        await until_shown(pilot, "● ready", "KV pool", seconds=_BOOT_SECONDS)
        again = store.find(self.slug)
        assert flag in again.argv and again.argv[again.argv.index(flag) + 1].startswith(new)
        if self.fault.steal_port:  # else it is the same, unless a server of another test has it by now
            assert again.port != dead.port
        self.outcome.ready_again = True

    async def _stop(self, pilot: Cockpit) -> None:
        await pilot.press("K")
        await until_shown(pilot, "Stop ")
        await pilot.press("y")
        await until_told(pilot, "stopped after", "nothing is left of it", seconds=240)


def _past_the_rules(plan: LaunchPlan, beyond: tuple[str, ...]) -> LaunchPlan:
    """The plan as somebody types it who knows better."""
    return msgspec.structs.replace(plan, findings=(), argv=(*plan.argv, *beyond))


def _end_of(pid: int) -> float:
    """When a process ends, whoever takes its exit code."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return time.monotonic()
    try:
        select.select([handle], [], [], _BOOT_SECONDS)
        return time.monotonic()
    finally:
        os.close(handle)


async def _all(folder: Path) -> dict[str, Outcome]:
    """Every fault in a cockpit of its own, some at the same time."""
    starting, room = asyncio.Lock(), asyncio.Semaphore(_AT_A_TIME)

    async def one(faulty: _Faulty) -> None:
        async with room:
            try:
                await faulty.run()
            except BaseException as error:
                faulty.outcome.error = error

    boots = {name: _Faulty(name, fault, folder, starting) for name, fault in FAULTS.items()}
    await asyncio.gather(*(one(faulty) for faulty in boots.values()))
    return {name: faulty.outcome for name, faulty in boots.items()}


@pytest.fixture(scope="module")
def outcomes(home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    # Each app redirects what is printed and puts back what it found: with several that is another app.
    with redirect_stdout(sys.stdout), redirect_stderr(sys.stderr):
        return asyncio.run(_all(tmp_path_factory.mktemp("models")))


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_boot_ends_on_the_screen_and_f_starts_it_again(name: str, outcomes: dict[str, Outcome]) -> None:
    fault, outcome = FAULTS[name], outcomes[name]
    if outcome.error is not None:
        raise outcome.error
    if outcome.notice_seconds is not None:
        again = ", then ready with f" if outcome.ready_again else ""
        print(f"{name}: on the screen {outcome.notice_seconds:.2f} s after its death{again}")
        assert outcome.notice_seconds < 30.0, "a second on a machine that has nothing else to do"
    assert (outcome.notice_seconds is None) == (fault.sentence is None)
    assert outcome.ready_again == (fault.fix is not None)
