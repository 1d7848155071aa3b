"""What the driver, and the machine below it, report: lost GPUs, old drivers, refused memory calls."""

from __future__ import annotations

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import NO_EXPANDABLE_SEGMENTS, do, no_graphs, say


def _corrupting(seen: Evidence) -> bool:
    """Whether a failed launch may be the IOMMU's: several GPUs, and no traceback that names a kernel."""
    return in_use("tensor_parallel", seen) != 1 and not seen.incident.file


_IOMMU = do(
    "Look at `dmesg | grep -E 'IO_PAGE_FAULT|Xid'`; boot the kernel with iommu=pt.",
    Fix(text="Or do without direct transfers between the GPUs.", env={"NCCL_P2P_DISABLE": "1"}),
)

_BY_A_KERNEL = ("13", "31", "43")
"""Xids that a kernel causes by what it accesses, more likely than hardware does (NVIDIA's catalogue of Xids)."""


def _lost(seen: Evidence) -> str:
    number = seen.groups.get("xid")
    if number in _BY_A_KERNEL:
        return f"The GPU reported an illegal access by a kernel (Xid {number}): software, more likely than hardware."
    return "The driver lost the GPU or found it faulty."


def _lost_fixes(seen: Evidence) -> list[Fix]:
    look = Fix(text="Look at `dmesg | grep -E 'Xid|NVRM'`; reboot the machine, and watch power and temperature.")
    if seen.groups.get("xid") not in _BY_A_KERNEL:
        return [look]
    again = Fix(text="Start it again; if it comes back upgrade vLLM or go back to the last version that worked.")
    return [again, *no_graphs(seen), look]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="nvml-mismatch",
        patterns=(r"Driver/library version mismatch", r"RM has detected an NVML/RM version mismatch"),
        versions="any",
        explain=say(
            "The NVIDIA kernel module and its library are of different versions: the driver was updated without a "
            "reboot."
        ),
        fixes=do("Reboot, or reload the nvidia modules."),
    ),
    Symptom(
        id="amd-iommu",
        patterns=(r"IO_PAGE_FAULT",),
        versions="any",
        explain=say("The IOMMU refused a transfer of the GPUs, which corrupts memory; other errors are collateral."),
        fixes=_IOMMU,
    ),
    Symptom(
        id="gpu-lost",
        patterns=(
            r"Xid \([^)]*\): ?(?P<xid>\d+)",
            r"\bXid (?P<xid>\d+)",
            r"GPU is lost",
            r"NVMLError_GpuIsLost",
            r"Unable to determine the device handle",
            r"GPU has fallen off the bus",
            r"uncorrectable ECC",
            r"ECC error",
            r"GPU recovery action",
        ),
        versions="any",
        explain=_lost,
        fixes=_lost_fixes,
    ),
    Symptom(
        id="amd-iommu",
        patterns=(
            r"free\(\): invalid (?:next size|pointer|size)",
            r"malloc\(\): (?:invalid|corrupted|unaligned|mismatching)",
            r"double free or corruption",
            r"corrupted (?:size vs|double-linked)",
            r"munmap_chunk\(\): invalid",
            r"unspecified launch failure",
        ),
        when=lambda seen: "launch failure" not in seen.incident.text or _corrupting(seen),
        versions="any",
        explain=say(
            "Memory was corrupted under load: on AMD boards with several GPUs usually the IOMMU; the message is "
            "collateral."
        ),
        fixes=_IOMMU,
    ),
    Symptom(
        id="wsl-expandable-segments",
        patterns=(
            r"CUDA driver error: device not ready",
            r"dxgkio_make_resident: Ioctl failed",
            r"cuMemCreate.{0,60}(?:not supported|failed)",
        ),
        versions="0.20 to 0.33",
        explain=say(
            "WSL2 refuses the memory calls that PyTorch's expandable segments make; it is not short of memory."
        ),
        fixes=do(NO_EXPANDABLE_SEGMENTS),
    ),
    Symptom(
        id="wsl-uva",
        patterns=(r"UVA is not available",),
        versions="0.20 to 0.33",
        explain=say("The model runner shares pinned host memory with the GPU (UVA), which vLLM leaves off on WSL2."),
        fixes=do(Fix(text="Allow pinned memory.", env={"VLLM_WSL2_ENABLE_PIN_MEMORY": "1"})),
    ),
    Symptom(
        id="ptx-toolchain-newer",
        patterns=(
            r"provided PTX was compiled with an unsupported toolchain",
            r"cudaErrorUnsupportedPtxVersion",
            r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            r"\berror 222\b",
            r"PTX .version .{0,40}does not support",
        ),
        versions="any",
        explain=say("A kernel was compiled by a newer CUDA toolkit than the driver understands."),
        fixes=do("Update the driver, or use an image or wheel whose CUDA matches it."),
    ),
    Symptom(
        id="cuda-compat",
        patterns=(
            r"system has unsupported display driver / cuda driver combination",
            r"cudaErrorSystemDriverMismatch",
            r"\bError 803\b",
        ),
        versions="any",
        explain=say(
            "Another libcuda than the driver's own is loaded: CUDA's compatibility library of the container, or "
            "that of a driver that was updated without a reboot."
        ),
        fixes=do(
            "In a container put the driver's libraries first: "
            "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/nvidia/lib.",
            "On the machine itself reboot after a driver update; `ldconfig -p | grep libcuda.so` must name the "
            "driver's only.",
        ),
    ),
    Symptom(
        id="fabric-manager",
        patterns=(r"\bError 802: ", r"cudaErrorSystemNotReady", r"system not yet initialized"),
        versions="any",
        explain=say(
            "The GPUs hang on an NVSwitch whose fabric manager does not run, or not in the driver's version."
        ),
        fixes=do(
            "Install and start nvidia-fabricmanager in the driver's version; `nvidia-smi -q` shows Fabric: State."
        ),
    ),
    Symptom(
        id="container-toolkit-old",
        patterns=(r"cudaGetDeviceCount[\s\S]{0,240}Error 500: named symbol not found",),
        versions="any",
        explain=say(
            "What passes the GPU into the container or WSL2 is older than the driver: CUDA finds only a part of it."
        ),
        fixes=do(
            "Update Docker Desktop (4.31 or later) or nvidia-container-toolkit (1.15 or later), and `wsl --update`; "
            "then restart them.",
        ),
    ),
    Symptom(
        id="mps",
        patterns=(
            r"MPS client failed to connect",
            r"MPS server is not ready",
            r"\bError 80[5-9]: ",
            r"cudaErrorMps\w+",
        ),
        versions="any",
        explain=say("The GPU is shared through MPS, and its control daemon does not run or does not answer."),
        fixes=do(
            "Start it anew: `echo quit | nvidia-cuda-mps-control`, then `nvidia-cuda-mps-control -d`; a container "
            "needs the host's CUDA_MPS_PIPE_DIRECTORY mounted and --ipc=host.",
            Fix(text="Or do without MPS.", env={"CUDA_MPS_PIPE_DIRECTORY": None}),
        ),
    ),
    Symptom(
        id="gpu-busy",
        patterns=(r"CUDA-capable device\(s\) is/are busy or unavailable", r"cudaErrorDevicesUnavailable"),
        versions="any",
        explain=say(
            "The GPU takes no further process: its compute mode is exclusive and another one has it, MPS stands in "
            "between, or it hangs."
        ),
        fixes=do(
            "`nvidia-smi -q -d COMPUTE` shows the mode: set it back with `nvidia-smi -c DEFAULT`, and end what else "
            "holds the GPU.",
            "With MPS start its daemon anew, or leave it out; a GPU that hangs needs a reboot.",
        ),
    ),
    Symptom(
        id="uvm",
        patterns=(r"CUDA unknown error", r"\bError 999: ", r"cudaErrorUnknown"),
        versions="any",
        explain=say(
            "CUDA cannot start although the driver may answer: most often the module nvidia_uvm is broken after a "
            "suspend, or /dev/nvidia-uvm is missing."
        ),
        fixes=do(
            "Load it anew: `sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm`, or reboot; `ls /dev/nvidia-uvm` must "
            "show it, in a container too.",
            "If CUDA_VISIBLE_DEVICES is set it must name GPUs that are there.",
        ),
    ),
    Symptom(
        id="driver-too-old",
        patterns=(
            r"The NVIDIA driver on your system is too old",
            r"CUDA driver version is insufficient for CUDA runtime version",
            r"cudaErrorInsufficientDriver",
            r"forward compatibility was attempted on non supported HW",
        ),
        versions="any",
        explain=say("The NVIDIA driver is older than the CUDA that this vLLM was built for."),
        fixes=do("Update the driver, or install a vLLM built for the older CUDA."),
    ),
)
