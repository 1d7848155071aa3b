"""int8 activations: the overlay's lines in a boot log become proof, or the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.supervisor.boot import BootLog
from cockpit.supervisor.boot_state import BootState
from cockpit.supervisor.record import InstanceRecord
from cockpit.telemetry import text
from cockpit.telemetry.frame import Int8
from cockpit.telemetry.int8 import int8_of

HEAD = "(Worker_TP{rank} pid=7) INFO 11-30 01:11:01 [cockpit_overlay.py:221] cockpit overlay autoround-int8"
MARLIN = "(Worker pid=7) INFO 11-30 01:10:58 [auto_gptq.py:333] Using MarlinLinearKernel for AutoGPTQLinearMethod"
MACHETE = MARLIN.replace("Marlin", "Machete")
READY = "INFO:     Application startup complete."
WORLD = "(Worker pid=7) INFO 11-30 01:10:50 [p.py:1] world_size={n} rank=0 local_rank=0"
PATH = "/x/cockpit/launch/overlays/autoround_int8:/x/cockpit/launch/overlays/common"


def switched(layers: int, rank: int = 0, folded: int = 0, groups: int = 0, clamped: int = 0, rest: str = "") -> str:
    return (
        f"{HEAD.format(rank=rank)} rank {rank}: {layers} layers switched to int8 activations, "
        f"{folded} of {groups} groups folded, {clamped} codes clamped{rest}"
    )


def boot(*lines: str) -> BootState:
    log = BootLog(None)
    log.feed(lines, 1e9)
    return log.snapshot()


def record(int8: str = "on", path: str = PATH) -> InstanceRecord:
    return InstanceRecord(
        name="a",
        slug="vllm/a",
        model="m",
        served_model_name="a",
        argv=("vllm",),
        env={"PYTHONPATH": path} if path else {},
        cwd="/",
        host="127.0.0.1",
        port=8000,
        url="http://127.0.0.1:8000",
        log="/x.log",
        created_at=0.0,
        values={"int8": int8},
    )


NO_LINE = "the overlay left no line in the log"
KEPT = "; 224 kept at 16 bits: MacheteLinearKernel does not read the switch"
BY_ITSELF = "this vLLM hands the switch on by itself: only a prefill measurement proves it"


@pytest.mark.parametrize(
    ("lines", "active", "proof"),
    [
        ([], None, None),
        ([MARLIN], None, None),
        ([MARLIN, READY], False, NO_LINE),
        ([MACHETE, READY], False, "MacheteLinearKernel does not read the switch"),
        ([switched(0, rest=KEPT), READY], False, "MacheteLinearKernel does not read the switch"),
        ([switched(0), READY], False, "no AutoRound layer of the model reached Marlin"),
        ([switched(28, folded=1258, groups=2516)], True, "28 layers, 1,258 of 2,516 groups folded"),
        ([switched(28, clamped=9), READY], True, "28 layers, 0 of 0 groups folded, 9 codes clamped"),
        ([switched(28), switched(2), READY], True, "30 layers, 0 of 0 groups folded"),
        ([switched(28), switched(0), READY], True, "28 layers, 0 of 0 groups folded"),
        (
            [WORLD.format(n=2), switched(28, 0, 1, 2), switched(28, 1, 1, 2), READY],
            True,
            "28 layers on 2 ranks, 2 of 4 groups folded",
        ),
        ([WORLD.format(n=2), switched(28), READY], False, "only 1 of 2 ranks switched layers"),
        ([WORLD.format(n=2), switched(28)], None, None),
        (
            [WORLD.format(n=2), switched(28), switched(0, rank=1, rest=KEPT), READY],
            False,
            "rank 1: MacheteLinearKernel does not read the switch",
        ),
        (
            ["cockpit overlay autoround-int8: refused: a layer has asymmetric weights"],
            False,
            "a layer has asymmetric",
        ),
        ([f"{HEAD.format(rank=0)}: needless: vLLM 0.40.0 does it by itself", READY], None, BY_ITSELF),
    ],
)
def test_what_the_overlay_says_decides(lines: list[str], active: bool | None, proof: str | None) -> None:
    found = int8_of(record(), boot(*lines))
    assert (found.requested, found.active) == (True, active)
    assert (found.proof or "").startswith(proof or "") and (found.proof is None) == (proof is None)


@pytest.mark.parametrize(
    ("log", "proof"),
    [
        ("h200-0.26-ar4-int8-overlay.log", "144 layers, 27,248,256 of 54,263,808 groups folded"),
        # The draft is loaded after the model, and has no layer of the kind.
        ("h200-0.26-q38-ar4-int8-mtp3.log", "256 layers, 95,366,384 of 190,054,400 groups folded"),
    ],
)
def test_a_real_boot_of_an_h200_proves_itself(log: str, proof: str) -> None:
    file = Path(__file__).parents[2] / "fixtures" / "boot-logs" / log
    found = int8_of(record(), boot(*file.read_text(encoding="utf-8").splitlines()))
    assert found.active
    assert found.proof == proof


def test_without_an_overlay_in_the_plan_nothing_is_claimed() -> None:
    assert int8_of(record(path=""), boot(MARLIN, READY)) == Int8(requested=True, proof=BY_ITSELF)
    assert int8_of(record(), None) == Int8(requested=True)


def test_int8_that_is_off_is_not_spoken_of() -> None:
    assert int8_of(record("off"), boot(switched(28), READY)) == Int8()


def test_a_prompt_in_the_log_of_a_ready_server_proves_nothing() -> None:
    assert int8_of(record(), boot(MARLIN, READY, switched(28))).active is False


@pytest.mark.parametrize(
    ("reading", "shown"),
    [
        (Int8(requested=True, active=True, proof="28 layers"), "proven active (28 layers)"),
        (Int8(requested=True, active=False, proof=NO_LINE), f"requested, not active (why: {NO_LINE})"),
        (Int8(requested=True), "requested, not proven"),
        (Int8(requested=True, proof=BY_ITSELF), f"requested, not proven: {BY_ITSELF}"),
    ],
)
def test_the_words_on_the_screen(reading: Int8, shown: str) -> None:
    assert text.int8(reading) == shown
