"""Intel's GPUs: what Level Zero, oneCCL and PyTorch's XPU say."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Symptom
from cockpit.supervisor.diagnose.words import do, fewer_sequences, joined, less_utilization, say

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="xpu-memory",
        patterns=(r"UR_RESULT_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY",),
        versions="0.8 to 0.33, XPU",
        explain=say("The Intel GPU ran out of memory."),
        fixes=joined(less_utilization, fewer_sequences, do("Or use a checkpoint with fewer bits.")),
    ),
    Symptom(
        id="xpu-device",
        patterns=(
            r"UR_RESULT_ERROR_(?P<what>\w+)",
            r"level_zero backend failed",
            r"Native API failed[^\n]{0,80}PI_ERROR",
        ),
        versions="0.8 to 0.33, XPU",
        explain=say(
            "Intel's driver lost the GPU or refused a launch ({what}): most often it reset the card after a fault.",
            "Intel's driver lost the GPU or refused a launch: most often it reset the card after a fault.",
        ),
        fixes=do(
            "`dmesg | grep -E 'xe |i915'` shows resets; update the kernel and Intel's compute runtime.",
            "Try one GPU (--tensor-parallel-size 1): most of these come from transfers between two.",
        ),
    ),
    Symptom(
        id="xpu-device",
        patterns=(r"oneCCL: ze_fd_manager", r"fill_device_fds"),
        versions="0.7 to 0.33, XPU",
        explain=say("oneCCL finds no device of the Intel GPUs: /dev/dri, or its by-path folder, is not there."),
        fixes=do(
            "Give the container all of it: --device /dev/dri -v /dev/dri/by-path:/dev/dri/by-path, with the groups "
            "video and render.",
        ),
    ),
    Symptom(
        id="xpu-device",
        patterns=(r"doesn't support querying the available free memory",),
        versions="0.8 to 0.33, XPU",
        explain=say(
            "PyTorch cannot ask this Intel GPU for its free memory, which vLLM plans with: an integrated GPU, or an "
            "old driver."
        ),
        fixes=do(
            "Update Intel's compute runtime and PyTorch; ZES_ENABLE_SYSMAN=1 lets it ask on some.",
            "Or use a discrete Arc, or the CPU build: vLLM is not made for integrated GPUs.",
        ),
    ),
)
