"""Driver, toolkit, card and kernels."""

from __future__ import annotations

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import NO_EXPANDABLE_SEGMENTS, do, less_utilization, no_graphs, say


def _graph_fixes(seen: Evidence) -> list[Fix]:
    return [*less_utilization(seen), *no_graphs(seen)]


def _corrupting(seen: Evidence) -> bool:
    """Whether a failed launch may be the IOMMU's: several GPUs, and no kernel of vLLM's that it is known of."""
    return in_use("tensor_parallel", seen) != 1 and not seen.incident.file


_IOMMU = do(
    "Look at `dmesg | grep -E 'IO_PAGE_FAULT|Xid'`; boot the kernel with iommu=pt.",
    Fix(text="Or do without direct transfers between the GPUs.", env={"NCCL_P2P_DISABLE": "1"}),
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="nvml-mismatch",
        patterns=(r"Driver/library version mismatch", r"RM has detected an NVML/RM version mismatch"),
        versions="any",
        explain=say(
            "The NVIDIA kernel module and its library are of different versions: the driver was updated "
            "without a reboot."
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
        explain=lambda seen: (
            "The GPU reported an illegal access by a kernel (Xid 31): software, more likely than hardware."
            if seen.groups.get("xid") in ("31", "13")
            else "The driver lost the GPU or found it faulty."
        ),
        fixes=do("Look at `dmesg | grep -E 'Xid|NVRM'`; reboot the machine, and watch power and temperature."),
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
            "Memory was corrupted under load: on AMD boards with several GPUs usually the IOMMU; the "
            "message is collateral."
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
            "Another libcuda than the driver's own is loaded: CUDA's compatibility library of the container, or that "
            "of a driver that was updated without a reboot."
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
        fixes=do(
            "Install a vLLM for CUDA 12.8 or later (0.10 and up) for an RTX 50 card; a card before Turing "
            "needs an older release.",
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
        fixes=do("Upgrade vLLM, or choose another backend (--attention-backend)."),
    ),
    Symptom(
        id="gpu-taken-away",
        patterns=(r"NVMLError_Unknown", r"Failed to initialize NVML: (?:Unknown Error|Insufficient Permissions)"),
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
            r"CUDA unknown error",
            r"CUDA driver initialization failed",
            r"Unexpected error from cudaGetDeviceCount",
            r"no CUDA-capable device is detected",
            r"libnvidia-ml\.so",
            r"NVML Shared Library Not Found",
            r"CUDA-capable device\(s\) is/are busy or unavailable",
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
        id="cuda-fork",
        patterns=(
            r"Cannot re-initialize CUDA in forked subprocess",
            r"bootstrapping phase",
            r"CUDA error: initialization error",
        ),
        versions="any",
        explain=say("CUDA was used before the workers were forked, or a script starts vLLM without a main guard."),
        fixes=do(Fix(text="Spawn the workers.", env={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"})),
    ),
    Symptom(
        id="illegal-access",
        patterns=(
            r"an illegal memory access was encountered",
            r"CUDA error: misaligned address",
            r"unspecified launch failure",
            r"device-side assert triggered",
            r"cudaErrorIllegalAddress",
            r"CUDA error: an illegal instruction",
            r"CUBLAS_STATUS_EXECUTION_FAILED",
            r"CUBLAS_STATUS_INTERNAL_ERROR(?! when calling `cublas\w*Create)",
        ),
        versions="any",
        explain=say(
            "A kernel read or wrote where it must not: a fault of vLLM or of a kernel library, or of the GPU."
        ),
        fixes=lambda seen: [
            Fix(text="Upgrade vLLM or go back to the last version that worked."),
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
