"""The doctor's lines, from facts of our own."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from cockpit.rig import check_gpus, check_host
from cockpit.rig.check_types import Check, Examined
from cockpit.rig.checks import run_checks
from cockpit.rig.leftovers import Leftover
from cockpit.rig.types import Engine, EngineProblem, Gpu, HostFacts, Rig
from cockpit.units import GIB

CARD = Gpu(index=0, uuid="GPU-0", name="RTX 3090", total_bytes=24 * GIB, used_bytes=GIB, capability=(8, 6))
RIG = Rig(gpus=(CARD,), driver="580.95.05", driver_cuda=(13, 0))
NO_RIG = Rig(gpu_problem="no NVIDIA driver: NVML Shared Library Not Found.")
ENGINE = Engine(
    id="e", path="/e/vllm", python="/e/python", package="/e", version="0.33.0", platform="cuda", cuda=(13, 0)
)
FACTS = HostFacts(
    shared_memory_total_bytes=8 * GIB,
    shared_memory_free_bytes=8 * GIB,
    compiler="/usr/bin/gcc",
    model_cache="/",
    token="HF_TOKEN",
)


def examined(facts: dict[str, Any] | None = None, **changes: Any) -> Examined:
    base = {"rig": RIG, "facts": HostFacts(**{**fields(FACTS), **(facts or {})}), "environ": {}, "engines": [ENGINE]}
    return Examined(**{**base, **changes})


def fields(value: HostFacts) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def of(lines: list[Check], name: str) -> list[Check]:
    return [line for line in lines if line.check == name]


def only(given: Examined, name: str) -> Check:
    (line,) = of(run_checks(given), name)
    return line


def test_a_good_host_has_no_complaint_but_of_its_own_limits() -> None:
    lines = run_checks(examined())
    left_to_this_machine = {"disk-models", "disk-engines", "open-files"}
    assert [line for line in lines if line.status != "ok" and line.check not in left_to_this_machine] == []
    assert only(examined(), "driver").message == "NVIDIA driver 580.95.05, CUDA up to 13.0"
    assert only(examined(), "gpu-0").message == "RTX 3090, compute capability 8.6, 1.0 of 24.0 GiB in use"


def test_every_line_that_complains_says_what_to_do() -> None:
    bad = examined(
        facts={"compiler": None, "shared_memory_free_bytes": 1, "token": None, "inherited": ("VLLM_X",)},
        rig=NO_RIG,
        engines=[],
        engine_problems=[EngineProblem(path="/x", title="/x does not exist", fix="Take it out.")],
    )
    complaints = [line for line in run_checks(bad) if line.status != "ok"]
    names = {line.check for line in complaints}
    assert {"driver", "engines", "compiler", "shared-memory", "environment"} <= names
    assert all(line.fix.endswith((".", "shows one.")) for line in complaints)
    assert all(line.status == "warn" for line in complaints), "a host without a GPU can serve the demo"


def test_a_gpu_without_a_working_driver_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_gpus, "has_nvidia_device", lambda: True)
    line = only(examined(rig=NO_RIG), "driver")
    assert line.status == "fail" and "there is an NVIDIA GPU, but no NVIDIA driver" in line.message


@pytest.mark.parametrize(
    ("vendor", "kind", "expected"),
    [
        ("0x10de", "0x030000", True),
        ("0x10de", "0x030200", True),
        ("0x10de", "0x040300", False),
        ("0x1002", "0x030000", False),
    ],
)
def test_a_display_or_3d_controller_of_nvidia_is_a_gpu(
    tmp_path: Path, vendor: str, kind: str, expected: bool
) -> None:
    device = tmp_path / "0000:01:00.0"
    device.mkdir()
    (device / "vendor").write_text(vendor + "\n")
    (device / "class").write_text(kind + "\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "vendor").write_bytes(b"\xff")
    assert check_gpus.has_nvidia_device(tmp_path) is expected
    assert not check_gpus.has_nvidia_device(tmp_path / "missing")


def test_a_full_gpu_is_a_warning_unless_the_cockpit_serves_from_it() -> None:
    full = Rig(gpus=(Gpu(index=0, uuid="u", name="A", total_bytes=24 * GIB, used_bytes=20 * GIB),))
    assert only(examined(rig=full), "gpu-0").status == "warn"
    assert only(examined(rig=full, instances={7: "dual"}), "gpu-0").status == "ok"
    silent = Rig(gpus=(Gpu(index=0, uuid="u", name="A"),))
    assert "does not say" in only(examined(rig=silent), "gpu-0").message


@pytest.mark.parametrize(
    ("built", "driver", "status"),
    [
        ((13, 0), (12, 8), "fail"),
        ((12, 9), (12, 2), "ok"),
        ((12, 8), (13, 0), "ok"),
        (None, (12, 2), "ok"),
        ((13, 0), None, "ok"),
    ],
)
def test_an_engine_of_a_newer_major_cuda_than_the_drivers_fails(
    built: tuple[int, int] | None, driver: tuple[int, int] | None, status: str
) -> None:
    engine = Engine(id="e", path="/e", python="/p", package="/v", version="0.33.0", platform="cuda", cuda=built)
    rig = Rig(gpus=(CARD,), driver_cuda=driver)
    assert only(examined(rig=rig, engines=[engine]), "engines").status == status


def test_missing_python_headers_are_a_warning_on_a_gpu_only() -> None:
    engine = Engine(
        id="e", path="/e", python="/p", package="/v", version="0.33.0", platform="cuda", python_headers=False
    )
    assert "Python.h" in only(examined(engines=[engine]), "engines").message
    assert only(examined(engines=[engine], rig=NO_RIG), "engines").status == "ok"


def test_a_leftover_fails_when_it_holds_a_gpu_and_says_how_to_end_it() -> None:
    engine = Leftover(pid=41, title="VLLM::EngineCor", started_at=1.0, gpu_bytes={0: 3 * GIB, 1: None})
    worker = Leftover(pid=42, title="VLLM::Worker", started_at=1.0, gpu_bytes={})
    lines = of(run_checks(examined(leftovers=[engine, worker], instances={42: "dual"})), "leftovers")
    assert [line.status for line in lines] == ["fail", "warn"]
    assert "pid 41" in lines[0].message and "GPU 0, 1 with 3.0 GiB" in lines[0].message
    assert "kill 41" in lines[0].fix
    assert lines[1].fix == "Run `cockpit stop dual`."


def test_shared_memory_must_do_for_every_gpu() -> None:
    two = Rig(gpus=(CARD, CARD))
    assert only(examined({"shared_memory_free_bytes": 2 * GIB}, rig=two), "shared-memory").status == "ok"
    line = only(examined({"shared_memory_free_bytes": 64 << 20}, rig=two), "shared-memory")
    assert line.status == "warn" and "2 ranks of tensor parallel want 2 GiB" in line.message
    assert only(examined({"shared_memory_free_bytes": None}), "shared-memory").status == "warn"


def test_no_compiler_is_a_failure_only_where_there_is_a_gpu() -> None:
    assert only(examined({"compiler": None}), "compiler").status == "fail"
    assert only(examined({"compiler": None}, rig=NO_RIG), "compiler").status == "warn"


def test_a_full_disk_is_a_warning_with_the_variable_that_moves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_host, "free_bytes", lambda _: GIB)
    for name, variable in (("disk-models", "HF_HOME"), ("disk-engines", "XDG_DATA_HOME")):
        line = only(examined(), name)
        assert line.status == "warn" and line.message.startswith("1.0 GiB free for") and variable in line.fix
    monkeypatch.setattr(check_host, "free_bytes", lambda _: None)
    assert "unknown" in only(examined(), "disk-models").message


def test_a_home_that_cannot_be_written_fails_and_none_is_made(homes: Path) -> None:
    assert only(examined(), "homes").status == "ok"
    assert not homes.exists()
    homes.mkdir()
    (homes / "state").write_text("a file where a folder should be")
    line = only(examined(), "homes")
    assert line.status == "fail" and "state" in line.message and "XDG_STATE_HOME" in line.fix


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert not check_host.can_be_written(tmp_path / "new")


def test_the_token_line_never_shows_the_token_and_minds_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("hf_secret")
    file.chmod(0o640)
    environ = {"HF_HOME": str(tmp_path), "HF_TOKEN": "hf_secret"}
    line = only(examined({"token": str(file)}, environ=environ), "token")
    assert (line.status, line.fix) == ("warn", f"Run `chmod 600 {file}`.")
    file.chmod(0o600)
    assert only(examined({"token": str(file)}, environ=environ), "token").status == "ok"
    assert "open models only" in only(examined({"token": None}), "token").message
    assert "hf_secret" not in str(run_checks(examined({"token": str(file)}, environ=environ)))


def test_inherited_variables_are_named_without_their_values() -> None:
    line = only(examined({"inherited": ("VLLM_A", "VLLM_B")}, environ={"VLLM_A": "secret"}), "environment")
    assert line.status == "warn" and "VLLM_A, VLLM_B" in line.message and "secret" not in line.message


def test_wsl_has_a_line_of_its_own_and_segments_fail_there() -> None:
    assert of(run_checks(examined()), "wsl") == []
    wsl = Rig(gpus=(CARD,), wsl=True)
    assert only(examined(rig=wsl), "wsl").status == "ok"
    assert only(examined({"expandable_segments": True}, rig=wsl), "wsl").status == "fail"


@pytest.mark.parametrize(
    ("soft", "hard", "status"), [(1024, 4096, "warn"), (1024, 65535, "ok"), (1024, resource.RLIM_INFINITY, "ok")]
)
def test_the_hard_limit_of_open_files_is_what_counts(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, status: str
) -> None:
    monkeypatch.setattr(check_host.resource, "getrlimit", lambda _: (soft, hard))
    assert only(examined(), "open-files").status == status
