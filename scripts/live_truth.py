"""Compare what `cockpit top` shows of a running server of one's own with its client's count and with nvidia-smi.

    python scripts/live_truth.py NAME [--block TOKENS] [--streams N] [--answer TOKENS] [--tape FILE]

Sends a mixed load (short and long prompts with repeats) that begins and ends inside one window of `cockpit top`,
records a tape meanwhile, and prints a table. Takes about a minute; exit code 1 when a figure is more than 3 % off.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "live"))
sys.path.insert(0, str(ROOT))

from mixed_load import MixedLoad, Tokens  # noqa: E402 - the lines above find it

from cockpit.session import Session  # noqa: E402
from cockpit.supervisor.process import members_of  # noqa: E402
from cockpit.supervisor.record import InstanceRecord  # noqa: E402
from cockpit.tape import read_tape  # noqa: E402

WINDOW_SECONDS, BEFORE_SECONDS, AFTER_SECONDS = 30.0, 3.0, 5.0
LONG_PROMPT_TOKENS = 12_000
TOLERANCE = 0.03
BUSY_POINTS = 10.0
"""Both read the share of a short interval of the driver's, at other moments: of bursts they see another part."""
MIB = 1 << 20
SMI_FIELDS = "index,memory.used,power.draw,utilization.gpu,temperature.gpu"


class Row(NamedTuple):
    """One figure of two sources; ``absolute`` is a difference that is small whatever the figure."""

    name: str
    truth: float
    shown: float | None
    absolute: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether they agree."""
        return self.shown is not None and abs(self.shown - self.truth) <= max(TOLERANCE * self.truth, self.absolute)


def cockpit(*words: str) -> list[str]:
    """The command of a verb."""
    return [sys.executable, "-m", "cockpit", *words]


def long_prompt(record: InstanceRecord) -> None:
    """One prompt that takes a while, so that a tape shows it in progress."""
    model = json.load(urllib.request.urlopen(f"{record.url}/v1/models", timeout=10))["data"][0]
    size = min(LONG_PROMPT_TOKENS, int(model["max_model_len"]) - 64)
    body = {"model": model["id"], "prompt": [100 + one * 7919 % 300 for one in range(size)], "max_tokens": 32}
    request = urllib.request.Request(
        f"{record.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        answer.read()


def observed(record: InstanceRecord, words: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], Tokens]:
    """The frame of the window that holds the load, and the client's count; the tape and nvidia-smi run beside it."""
    seconds = f"{WINDOW_SECONDS + 8:g}"
    taping = cockpit("top", record.name, "--record", str(words.tape), "--for", seconds)
    record_to = subprocess.Popen(taping, stdout=subprocess.DEVNULL)
    smi = None
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits", "-lms", "200"]
        with (folder / "smi.csv").open("wb") as stream:
            smi = subprocess.Popen(asked, stdout=stream)
    argv = cockpit("top", record.name, "--once", "--json", "--seconds", f"{WINDOW_SECONDS:g}")
    load = MixedLoad(record.url, record.served_model_name, words.streams, words.answer, words.block)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as top:
        time.sleep(BEFORE_SECONDS)
        load.start()
        time.sleep(WINDOW_SECONDS - BEFORE_SECONDS - AFTER_SECONDS)
        tokens = load.finish()
        frame = json.loads(top.communicate()[0])
    long_prompt(record)
    record_to.wait(60)
    if smi is not None:
        smi.terminate()
        smi.wait(10)
    return frame, tokens


def throughput(frame: dict[str, Any], tokens: Tokens) -> Iterator[Row]:
    """The client's own count against the rates times their window."""
    rates, window = frame["throughput"], frame["window_seconds"]
    shown = {name: rates[f"{name}_tokens_per_second"] for name in ("prefill", "cached_prefill", "decode")}
    for name, truth in zip(shown, (tokens.computed, tokens.cached, tokens.generated), strict=True):
        rate = shown[name]
        yield Row(f"{name.replace('_', ' ')} tok/s", truth / window, rate)


def held_by(pids: set[int]) -> tuple[float | None, str]:
    """MiB that nvidia-smi counts for these processes; None with its words where it knows none of them."""
    asked = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    text = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    rows = [line.split(",") for line in text.splitlines() if "," in line]
    mine = [
        float(used) for pid, used in rows if pid.strip().isdigit() and int(pid) in pids and used.strip().isdigit()
    ]
    return (sum(mine), text) if mine else (None, text or "it lists no process")


def gpus(record: InstanceRecord, words: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """nvidia-smi's own figures against those of the tape, over the same seconds."""
    samples: dict[int, list[list[float]]] = {}
    for line in (folder / "smi.csv").read_text(encoding="utf-8").splitlines():
        index, *figures = (float(figure) for figure in line.split(","))
        samples.setdefault(int(index), []).append(figures)
    frames = [one.frame for one in read_tape(words.tape).observations]
    instance = 0.0
    for index in record.gpus or (0,):
        taped = [gpu for frame in frames for gpu in frame.gpus if gpu.index == index]
        used, power, busy, heat = (
            statistics.fmean(column[len(column) // 10 : -(len(column) // 10) or None])
            for column in zip(*samples[index], strict=True)
        )
        cut = taped[len(taped) // 10 : -(len(taped) // 10) or None]
        yield Row(f"GPU {index} memory used, MiB", used, statistics.fmean((g.used_bytes or 0) / MIB for g in cut))
        yield Row(f"GPU {index} power, W", power, statistics.fmean(g.power_watts or 0 for g in cut))
        shown = statistics.fmean((g.utilization_fraction or 0) * 100 for g in cut)
        yield Row(f"GPU {index} utilization, %", busy, shown, BUSY_POINTS)
        yield Row(f"GPU {index} temperature, °C", heat, statistics.fmean(g.temperature_celsius or 0 for g in cut), 1)
        instance += (taped[-1].instance_bytes or 0) / MIB
        print(f"GPU {index}: share by {taped[-1].share_basis}, others {[o.name for o in taped[-1].others]}")
    held, text = held_by({one.pid for one in members_of(record)})
    print(f"nvidia-smi's processes: {text!r}")
    if held is not None:
        yield Row("memory of the instance's processes, MiB", held, instance)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--block", type=int, default=16, help="tokens a KV block; 128 on the CPU build")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--answer", type=int, default=120)
    parser.add_argument("--tape", type=Path)
    words = parser.parse_args()
    record = next(view.record for view in Session().instances()[0] if view.record.name == words.name)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words.tape = words.tape or folder / "a.tape"
        frame, tokens = observed(record, words, folder)
        rows = list(throughput(frame, tokens))
        if (folder / "smi.csv").is_file():
            rows += gpus(record, words, folder)
    window, basis = frame["window_seconds"], frame["throughput"]["prefill_basis"]
    print(f"{tokens.requests} requests, window {window:.1f} s, prefill counted {basis}")
    print("| figure | client or nvidia-smi | cockpit | difference |\n|---|--:|--:|--:|")
    for row in rows:
        off = "–" if row.shown is None or not row.truth else f"{(row.shown - row.truth) / row.truth:+.2%}"
        print(
            f"| {row.name} | {row.truth:,.1f} | {row.shown or 0:,.1f} | {off}{'' if row.is_right else ' **wrong**'} |"
        )
    return int(not all(row.is_right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
