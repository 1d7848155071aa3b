"""A session in which nothing moves: for pictures of the screens that are the same on every machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cockpit import paths
from cockpit.catalog.load import Catalog, Entry, load
from cockpit.checkpoint.types import Checkpoint
from cockpit.config import Config
from cockpit.launch.plan import Facts
from cockpit.launch.types import LaunchPlan
from cockpit.planner.forecast_types import Forecast
from cockpit.rig.types import Engine, Rig
from cockpit.session import InstanceView, Session
from cockpit.slug_checkpoints import CheckpointAnswer, read_checkpoint
from cockpit.supervisor.boot_state import BootFacts, BootStage, BootState
from cockpit.supervisor.others import Other
from cockpit.supervisor.record import InstanceRecord, ProcessIdentity
from cockpit.supervisor.spawn import Running
from cockpit.telemetry.frame import (
    Frame,
    GpuHolder,
    GpuReading,
    HostReading,
    Int8,
    Kv,
    Latencies,
    Latency,
    PrefixCache,
    Requests,
    SpeculativeRates,
    State,
    Throughput,
    Totals,
)
from cockpit.units import GIB
from cockpit.watch import Observation

SHIPPED_TO = Path("/opt/cockpit/slugs")
CUDA = Engine(
    id="/opt/vllm",
    path="/opt/vllm/bin/vllm",
    python="/opt/vllm/bin/python",
    package="/opt/vllm/lib/vllm",
    version="0.33.0",
    platform="cuda",
    torch="2.14.0+cu130",
    source="config",
)
CPU = msgspec.structs.replace(
    CUDA, id="cpu-0.32.0", path="/opt/cockpit/cpu-0.32.0/bin/vllm", version="0.32.0", platform="cpu", source="managed"
)
LONG_AGO = 8130.0
"""Seconds; half a minute past 2 h 15 m, so that a slow test still says the same."""


class StillSession(Session):
    """Fixed rig, engines, catalog and instances; following one gives what it was given."""

    def __init__(
        self,
        rig: Rig,
        seen: Sequence[Observation] = (),
        engines: Sequence[Engine] = (CUDA, CPU),
        forecasts: Mapping[str, Forecast] | None = None,
        others: Sequence[Other] = (),
    ) -> None:
        super().__init__(Config(refresh_seconds=60.0), environ={})
        self.__dict__["rig"] = rig
        self.__dict__["_found_engines"] = (list(engines), [])
        self.__dict__["catalog"] = still_catalog()
        self._seen = {one.record.name: one for one in seen}
        self._forecasts = forecasts or {}
        self._other_servers = others

    def look_at_rig_again(self) -> None:
        """It is as it was."""

    def plan_entry(self, entry: Entry, chosen: Mapping[str, Any], facts: Facts) -> LaunchPlan:
        """The real plan; with the forecast that was given for the slug, if one was."""
        plan = super().plan_entry(entry, chosen, facts)
        here = str(paths.shipped("slugs").parent)
        env = {
            name: value if value is None else value.replace(here, str(SHIPPED_TO.parent))
            for name, value in plan.env.items()
        }
        plan = msgspec.structs.replace(plan, env=env)
        forecast = self._forecasts.get(entry.slug.name, plan.forecast)
        return msgspec.structs.replace(plan, forecast=forecast)

    def checkpoint_of(self, entry: Entry) -> CheckpointAnswer:
        """Shipped ones as they are, said to lie in /opt; repositories are not on this machine."""
        if entry.slug.weights.path is None:
            return CheckpointAnswer()
        real = msgspec.structs.replace(entry, file=paths.shipped("slugs") / entry.file.relative_to(SHIPPED_TO))
        answer = read_checkpoint(real.model_source)
        assert answer.checkpoint is not None, answer.problem
        moved = msgspec.structs.replace(answer.checkpoint, source=entry.model_source, folder=entry.model_source)
        self._checkpoints[entry.model_source] = CheckpointAnswer(checkpoint=moved)
        return self._checkpoints[entry.model_source]

    def declared(self, entry: Entry) -> Checkpoint | None:
        """What the shipped slug declares, read from where it really lies."""
        if not entry.shipped:
            return super().declared(entry)
        real = paths.shipped("slugs") / entry.file.relative_to(SHIPPED_TO)
        return super().declared(msgspec.structs.replace(entry, file=real))

    def instances(self) -> tuple[list[InstanceView], list[str]]:
        """Those that were given."""
        return [InstanceView(record=one.record, state=one.state) for one in self._seen.values()], []

    def others(self) -> tuple[list[Other], list[str]]:
        """Those that were given."""
        return list(self._other_servers), []

    def is_on_record(self, name: str) -> bool:
        """Those that were given."""
        return name in self._seen

    def running(self, name: str) -> Running:
        """Held, but never looked at."""
        return Running(self._seen[name].record)

    def watch(self, name: str) -> StillWatch:  # type: ignore[override]
        """Always the same observation."""
        return StillWatch(self._seen[name])


class StillWatch:
    """The same observation at every tick, its log lines once."""

    is_live = True
    position = ""

    def __init__(self, seen: Observation) -> None:
        self._seen = seen

    def tick(self) -> Observation:
        """What was given."""
        seen = self._seen
        self._seen = msgspec.structs.replace(seen, lines=())
        return seen

    def close(self) -> None:
        """Nothing to let go of."""


def still_catalog() -> Catalog:
    """The shipped slugs as if they lay in /opt, so that no path of this checkout is in the picture."""
    shipped = paths.shipped("slugs")
    catalog = load(shipped, (paths.user_slugs(),))

    def moved(entry: Entry) -> Entry:
        return msgspec.structs.replace(entry, file=SHIPPED_TO / entry.file.relative_to(shipped))

    problems = tuple(
        msgspec.structs.replace(one, title=one.title.replace(str(paths.user_slugs()), "~/slugs"))
        for one in catalog.problems
    )
    return Catalog(entries=tuple(moved(entry) for entry in catalog.entries), problems=problems)


def record(slug: str, port: int, age: float = LONG_AGO, ready: bool = True, **changes: object) -> InstanceRecord:
    """An instance that was started ``age`` seconds ago."""
    started = time.time() - age
    name = slug.replace("/", "-")
    fields: dict[str, object] = {
        "name": name,
        "slug": slug,
        "model": "m",
        "served_model_name": slug.partition("/")[2],
        "process": ProcessIdentity(pid=4000 + port % 1000, start_time=started),
        "argv": ("vllm",),
        "env": {},
        "cwd": "/",
        "host": "127.0.0.1",
        "port": port,
        "url": f"http://127.0.0.1:{port}",
        "log": f"/var/log/{name}.log",
        "created_at": started,
        "ready_at": started if ready else None,
    }
    return InstanceRecord(**{**fields, **changes})  # type: ignore[arg-type]


def boot(*stages: tuple[str, float, float | None, str], first_exception: str | None = None) -> BootState:
    """Stages as (id, start, end, progress)."""
    last = stages[-1]
    return BootState(
        stages=tuple(
            BootStage(id=name, started=start, ended=end, progress=text)  # type: ignore[arg-type]
            for name, start, end, text in stages
        ),
        current=None if last[0] == "ready" else last[0],  # type: ignore[arg-type]
        facts=BootFacts(),
        ready=last[0] == "ready",
        first_exception=first_exception,
    )


LOADED = (
    ("environment", 0.0, 9.4, "vLLM 0.33.0"),
    ("config", 9.4, 14.0, "Qwen3_5ForConditionalGeneration"),
    ("weights", 14.0, 81.0, "9.10 GiB"),
)
BOOTED = (
    *LOADED,
    ("compile", 81.0, 140.0, "from the cache"),
    ("kv_pool", 140.0, 150.0, "623,873 tokens"),
    ("graphs", 150.0, 290.0, "0.10 GiB"),
    ("ready", 290.0, None, ""),
)


def observation(who: InstanceRecord, state: State, boot_state: BootState, frame: Frame | None = None) -> Observation:
    """One look; a dead one has the record's exit code."""
    return Observation(
        record=who,
        state=state,
        boot=boot_state,
        boot_seconds=292.0 if state == "ready" else 97.5,
        frame=frame or Frame(at=0.0, state=state),
        lines=(),
        exit_code=who.exit_code,
    )


def gpu_frame(prefill: float = 2498.0, decode: float = 88.7) -> Frame:
    """A busy server on two cards, with every figure known."""
    gpus = tuple(
        GpuReading(
            index=index,
            uuid=f"GPU-{index}",
            name="NVIDIA GeForce RTX 3090",
            total_bytes=24 * GIB,
            used_bytes=int((22.1 - 0.3 * index) * GIB),
            instance_bytes=int(21.6 * GIB) - index * GIB // 2,
            utilization_fraction=0.98 - index / 100,
            power_watts=301.0 - 5 * index,
            power_limit_watts=370.0,
            temperature_celsius=71 - 3 * index,
            free_bytes=int(1.6 * GIB),
            share_basis="processes",
            others=(GpuHolder(pid=812, name="Xorg", used_bytes=GIB // 2),) if index == 0 else (),
            memory_utilization_fraction=0.71,
            throttle=("power cap",) if index == 0 else (),
            pcie_generation=4,
            pcie_width=16,
            pcie_receive_bytes_per_second=1.25e9,
            pcie_transmit_bytes_per_second=0.4e9,
            nvlinks=4,
        )
        for index in range(2)
    )
    return Frame(
        at=0.0,
        state="ready",
        window_seconds=10.0,
        age_seconds=0.0,
        engines=1,
        throughput=Throughput(
            prefill_tokens_per_second=prefill,
            cached_prefill_tokens_per_second=1120.0,
            decode_tokens_per_second=decode,
            decode_tokens_per_second_per_request=decode / 2,
            prefill_basis="by_source",
        ),
        kv=Kv(capacity_tokens=623_873, max_concurrency=2.38, used_fraction=0.37, used_tokens=230_833),
        requests=Requests(running=2, waiting=1, preemptions_per_second=0.0),
        latency=Latencies(
            ttft_seconds=Latency(mean=0.45, p95=0.91), inter_token_seconds=Latency(mean=0.0112, p95=0.013)
        ),
        prefix_cache=PrefixCache(hit_fraction_window=0.6, hit_fraction_lifetime=0.45),
        speculative=SpeculativeRates(
            acceptance_length=2.9, acceptance_fraction=0.63, acceptance_per_position=(0.84, 0.63, 0.43)
        ),
        int8=Int8(requested=True),
        totals=Totals(
            prompt_computed_tokens=18_204_551,
            prompt_cached_tokens=9_020_113,
            generation_tokens=702_388,
            requests_finished=1_204,
        ),
        gpus=gpus,
    )


def cpu_frame() -> Frame:
    """An idle server on a host without a GPU."""
    return Frame(
        at=0.0,
        state="ready",
        age_seconds=0.0,
        throughput=Throughput(
            prefill_tokens_per_second=0.0, cached_prefill_tokens_per_second=0.0, decode_tokens_per_second=0.0
        ),
        kv=Kv(capacity_tokens=2_097_152, max_concurrency=1024.0, used_fraction=0.0, used_tokens=0),
        requests=Requests(running=0, waiting=0, preemptions_per_second=0.0),
        totals=Totals(prompt_computed_tokens=22, prompt_cached_tokens=0, generation_tokens=58, requests_finished=1),
        gpu_problem="no NVIDIA driver: NVML Shared Library Not Found.",
        host=HostReading(
            memory_total_bytes=16 * GIB,
            memory_used_bytes=6 * GIB,
            instance_bytes=2 * GIB,
            cpu_fraction=0.12,
            cores=4,
            instance_cpu_cores=0.4,
        ),
    )
