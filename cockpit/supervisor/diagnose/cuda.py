"""The card and its kernels: what the server sees, may use, and how a kernel fails."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import (
    NO_EXPANDABLE_SEGMENTS,
    do,
    joined,
    less_utilization,
    no_draft,
    no_graphs,
    say,
    without,
)


def _graph_fixes(seen: Evidence) -> list[Fix]:
    return [*no_draft(seen), *no_graphs(seen), *less_utilization(seen)]


def _no_image_fixes(seen: Evidence) -> list[Fix]:
    if re.search(r"\bHIP|rocm|hip\w+\.so", seen.incident.text):
        return [
            Fix(text="Use a ROCm build that has kernels for the card: `rocminfo | grep gfx` names what it needs."),
            Fix(
                text="Or let it pass for a near card that the build has: HSA_OVERRIDE_GFX_VERSION=11.0.0 for gfx110x."
            ),
        ]
    return [
        Fix(
            text="Install a vLLM for CUDA 12.8 or later (0.10 and up) for an RTX 50 card; a card before Turing "
            "needs an older release."
        )
    ]


def _without_draft(seen: Evidence) -> list[Fix]:
    return [Fix(text="Or try it without the draft.", set=fix.set) for fix in no_draft(seen)]


def _of_the_states(seen: Evidence) -> list[Fix]:
    """What hybrid models read wrongly: states that are found by the blocks of the attention (0.27 and 0.28)."""
    if not seen.in_frames(r"mamba|:gdn|linear_attn"):
        return []
    cached = Fix(
        text="Or do without the prefix cache, which the states are taken from.", set={"prefix_caching": "off"}
    )
    return [
        *([without("block_size")] if seen.arguments.chosen("block_size") else []),
        *([cached] if seen.arguments.get("enable_prefix_caching") else []),
    ]


def _resources_fixes(seen: Evidence) -> list[Fix]:
    experts = seen.in_frames(r"moe|expert")
    flag = "--moe-backend" if experts else "--attention-backend"
    return [Fix(text=f"Upgrade vLLM, or choose another backend ({flag}).")]


def _illegal_access(seen: Evidence) -> str:
    if "device-side assert" in seen.incident.text:
        return (
            "A kernel was given a value out of its range, such as an index: a fault of vLLM with this model, its "
            "draft or these flags, or of the weights."
        )
    return "A kernel read or wrote where it must not: a fault of vLLM or of a kernel library, or of the GPU."


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="no-kernel-image",
        patterns=(
            r"no kernel image is available for execution",
            r"is for sm\d+-sm\d+, but was built for sm",
            r"cudaErrorNoKernelImageForDevice",
            r"is not compatible with the current PyTorch installation",
            r"(?:sm_\d+|CUDA capability sm_?\d+) is not (?:compatible|supported)",
            r"device kernel image is invalid",
            r"invalid device function",
        ),
        versions="any",
        explain=say(
            "This vLLM or torch has no kernels for the card: the build is older than the card, or the card too old."
        ),
        fixes=_no_image_fixes,
    ),
    Symptom(
        id="rocm-compiler",
        patterns=(r"hip runtime failed to load", r"Please provide architecture for which code is to be generated"),
        versions="any",
        explain=say(
            "ROCm compiles kernels at boot, and its compiler does not know for which card: its tools do not find the "
            "card, or parts of ROCm are missing."
        ),
        fixes=do(
            "`rocminfo | grep gfx` must name the card for the server's user (groups video and render).",
            "Or use AMD's image of vLLM, which has all of ROCm.",
        ),
    ),
    Symptom(
        id="triton-resources",
        patterns=(
            r"out of resource: (?P<what>shared memory|registers|tensor memory)[^\n]*",
            r"OutOfResources",
        ),
        versions="any",
        explain=say(
            "A Triton kernel asks for more {what} than this card has.",
            "A Triton kernel asks for more than this card has.",
        ),
        fixes=_resources_fixes,
    ),
    Symptom(
        id="device-permission",
        patterns=(r"NVMLError_NoPermission", r"Failed to initialize NVML: Insufficient Permissions"),
        versions="any",
        explain=say("The user that the server runs as may not open the GPU's devices (/dev/nvidia*)."),
        fixes=do(
            "In rootless podman keep the user's groups: --group-add keep-groups, or --userns=keep-id; with SELinux "
            "--security-opt label=disable.",
            "Elsewhere add the user to the group of /dev/nvidia0 (`ls -l` says: video or render), and log in anew.",
        ),
    ),
    Symptom(
        id="gpu-taken-away",
        patterns=(r"NVMLError_Unknown", r"Failed to initialize NVML: Unknown Error"),
        versions="any",
        explain=say(
            "The driver does not answer in this container any more: most often its devices were taken away when the "
            "host reloaded systemd."
        ),
        fixes=do(
            "Start the container anew, with its devices named (--device /dev/nvidia0 …) or the cgroupfs driver, "
            "so that it does not come back.",
            "On the machine itself look at `nvidia-smi` and `dmesg | grep -E 'Xid|NVRM'`.",
        ),
    ),
    Symptom(
        id="no-device",
        patterns=(
            r"Failed to infer device type",
            r"No (?:CUDA|HIP|XPU) GPUs are available",
            r"no (?:ROCm|HIP|XPU)-capable device",
            r"0 active drivers \(\[\]\)",
            r"Cannot access accelerator device when none is available",
            r"Found no NVIDIA driver",
            r"Torch not compiled with CUDA enabled",
            r"CUDA driver initialization failed",
            r"Unexpected error from cudaGetDeviceCount",
            r"no CUDA-capable device is detected",
            r"libnvidia-ml\.so",
        ),
        versions="any",
        explain=say("vLLM sees no usable GPU."),
        fixes=do(
            "Check `nvidia-smi`, CUDA_VISIBLE_DEVICES and the container's --gpus; a CPU build of vLLM sees "
            "none either.",
        ),
    ),
    Symptom(
        id="visible-devices",
        patterns=(
            r"AssertionError: Invalid device id",
            r"NVMLError_InvalidArgument",
            r"NVMLError_NotFound",
            r"Error getting GPU with index",
        ),
        versions="any",
        explain=say("CUDA_VISIBLE_DEVICES names a GPU that this machine or container does not have."),
        fixes=do(
            "Correct CUDA_VISIBLE_DEVICES: in a container the GPUs that it was given count from 0.",
            Fix(text="Or use all that are there.", env={"CUDA_VISIBLE_DEVICES": None}),
        ),
    ),
    Symptom(
        id="main-guard",
        patterns=(r"bootstrapping phase",),
        versions="any",
        explain=say(
            "A script starts vLLM at its top level, and each worker, which reads the script again, would start it "
            "too."
        ),
        fixes=do('Put what starts it below `if __name__ == "__main__":` in the script.'),
    ),
    Symptom(
        id="cuda-fork",
        patterns=(
            r"Cannot re-initialize CUDA in forked subprocess",
            r"CUDA error: initialization error",
        ),
        versions="any",
        explain=say("CUDA was used before the workers were forked: a forked process cannot use it again."),
        fixes=do(Fix(text="Spawn the workers.", env={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"})),
    ),
    Symptom(
        id="illegal-instruction",
        patterns=(r"an illegal instruction was encountered", r"cudaErrorIllegalInstruction"),
        versions="any",
        explain=say(
            "A kernel has an instruction that this card does not run: one that was not made for it (often FP4 or FP8 "
            "on RTX 50 and GB10)."
        ),
        fixes=joined(
            do("Upgrade vLLM: kernels for newer cards come with its releases."),
            _without_draft,
            do("Or use another backend (--moe-backend, --linear-backend marlin), or weights of another format."),
        ),
    ),
    Symptom(
        id="illegal-access",
        patterns=(
            r"an illegal memory access was encountered",
            r"CUDA error: misaligned address",
            r"unspecified launch failure",
            r"device-side assert triggered",
            r"cudaErrorIllegalAddress",
            r"CUBLAS_STATUS_EXECUTION_FAILED",
            r"CUBLAS_STATUS_INTERNAL_ERROR(?! when calling `cublas\w*Create)",
        ),
        versions="any",
        explain=_illegal_access,
        fixes=lambda seen: [
            *_of_the_states(seen),
            Fix(text="Upgrade vLLM or go back to the last version that worked."),
            *_without_draft(seen),
            *(
                [without("enable_lora", ": its kernels failed, the model may do without")]
                if seen.in_frames(r"lora")
                else []
            ),
            *no_graphs(seen),
            Fix(
                text="For the true place of the fault start once with blocking launches.",
                env={"CUDA_LAUNCH_BLOCKING": "1"},
                aid=True,
            ),
        ],
    ),
    Symptom(
        id="graph-capture",
        patterns=(
            r"operation not permitted when stream is capturing",
            r"cudaErrorStreamCapture\w+",
            r"CUDA [Gg]raph capture.{0,60}(?:failed|invalidated)",
            r"previous error during capture",
        ),
        versions="any",
        explain=say("Capturing the CUDA graphs failed."),
        fixes=_graph_fixes,
    ),
    Symptom(
        id="graph-capture",
        patterns=(r"INTERNAL ASSERT FAILED",),
        frames=r"^(?:graphs|cuda_graph|cudagraph_utils)\.py:(?:__exit__|capture_end|capture\w*)$",
        versions="any",
        explain=say("PyTorch failed at its own accounts while CUDA graphs were captured: a fault of this version."),
        fixes=joined(no_draft, no_graphs, do("Try another release of vLLM, which brings another PyTorch.")),
    ),
    Symptom(
        id="compile-failed",
        patterns=(
            r"BackendCompilerFailed",
            r"InductorError",
            r"torch\._dynamo\.exc\.\w+",
            r"torch\._inductor\.exc\.\w+",
            r"InternalTorchDynamoError",
            r"CompilationError: at \d+:\d+",
            r"LoweringException",
        ),
        versions="any",
        explain=say("torch.compile failed on this model."),
        fixes=lambda seen: [
            Fix(text="Compile anew once, without what the cache has.", env={"VLLM_DISABLE_COMPILE_CACHE": "1"}),
            *no_graphs(seen),
            Fix(text="Or go back to the last vLLM version that booted this model."),
        ],
    ),
    Symptom(
        id="cublas-refused",
        patterns=(
            r"CUBLAS_STATUS_(?:NOT_SUPPORTED|INVALID_VALUE|ARCH_MISMATCH)",
            r"CUDNN_STATUS_\w*(?:SUPPORTED|MISMATCH)",
            r"cuDNN version incompatibility",
        ),
        versions="any",
        explain=say(
            "A CUDA library refused an operation: another version of it than torch's own is loaded, or the card "
            "lacks the type."
        ),
        fixes=do(
            Fix(text="Let torch load its own libraries.", env={"LD_LIBRARY_PATH": None}),
            "Or install vLLM anew: the nvidia-cublas package must be the one that torch asks for.",
        ),
    ),
    Symptom(
        id="cublas",
        patterns=(
            r"CUBLAS_STATUS_NOT_INITIALIZED",
            r"CUDNN_STATUS_NOT_INITIALIZED",
            r"when calling `cublas(?:Lt)?Create",
        ),
        versions="any",
        explain=say("A CUDA library could not start: most often the GPU had no memory left for it."),
        fixes=lambda seen: [*less_utilization(seen), Fix(text="Make sure that nothing else uses the GPU.")],
    ),
    Symptom(
        id="sleep-allocator",
        patterns=(r"CUDA Error: (?P<what>[^\n]{3,60}?) at \S*cumem_allocator\.cpp",),
        versions="0.7 to 0.33",
        explain=say(
            "The allocator of sleep mode failed ({what}): memory was freed or mapped twice, or is gone.",
            "The allocator of sleep mode failed.",
        ),
        fixes=do(without("enable_sleep_mode"), "Or upgrade vLLM; wake it up only when the memory is free again."),
    ),
    Symptom(
        id="expandable-segments",
        patterns=(r"Expandable segments are not compatible with memory pool",),
        versions="0.7 to 0.20",
        explain=say("Sleep mode has a memory pool of its own, which PyTorch's expandable segments do not go with."),
        fixes=do(NO_EXPANDABLE_SEGMENTS, without("enable_sleep_mode")),
    ),
    Symptom(
        id="mps",
        patterns=(r"MPS (?:client|server|daemon)", r"cudaErrorMps\w+"),
        versions="any",
        explain=say("The GPU is shared by NVIDIA's MPS, and its daemon does not answer, or not this user."),
        fixes=do(
            "Start the daemon (`nvidia-cuda-mps-control -d`) as the same user, or end it (`echo quit | "
            "nvidia-cuda-mps-control`); remove CUDA_MPS_PIPE_DIRECTORY where there is none.",
        ),
    ),
    Symptom(
        id="cuda-error",
        patterns=(
            r"(?:CUDA|HIP) (?:driver )?[Ee]rror: (?P<what>[^\n]{3,120})",
            r"AcceleratorError: (?P<what>[^\n]{3,120})",
        ),
        versions="any",
        explain=say(
            "The GPU's driver reported: {what}.",
            "The GPU's driver reported an error.",
        ),
        fixes=do(
            "Look at `dmesg` for Xid lines; start again, and if it comes back with another vLLM version.",
        ),
    ),
)
