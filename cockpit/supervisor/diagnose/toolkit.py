"""Kernels that are compiled at boot, and what they are compiled with: CUDA's toolkit, a C compiler, headers."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say

_PTXAS = "/usr/local/cuda/bin/ptxas"

_COMPILER_FAILED = r"CalledProcessError: Command '\[[^\]]*(?:gcc|cc|clang|g\+\+)'"
_NOT_LINKED = r"cannot find -lcuda\b"
_NO_LIBCUDA = say("Triton links a small file at boot, and does not find the driver's library libcuda.so.")
_LINK_IT = do(
    "Where there is a libcuda.so.1 only, link it: `ln -s libcuda.so.1 libcuda.so` in its folder.",
    "In a container the driver's libraries come with --gpus all and the NVIDIA runtime.",
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="ptxas-too-old",
        patterns=(
            r"ptxas fatal\s*: Value '(?P<arch>\w+)' is not defined for option",
            r"PTXAS error",
            r"ptxas fatal",
        ),
        versions="0.10 to 0.33",
        explain=say(
            "The assembler that Triton brings (ptxas) is older than the card: it does not know {arch}.",
            "The assembler that Triton brings (ptxas) failed on a kernel: most often it is older than the card.",
        ),
        fixes=do(
            Fix(
                text="Let Triton use the assembler of an installed CUDA toolkit (13.0 for sm_110 and sm_121).",
                env={"TRITON_PTXAS_PATH": _PTXAS, "TRITON_PTXAS_BLACKWELL_PATH": _PTXAS},
            ),
            "Or use a vLLM whose Triton knows the card.",
        ),
    ),
    Symptom(
        id="libcuda-link",
        patterns=(_NOT_LINKED, r"libcuda\.so cannot (?:be )?found"),
        versions="0.5 to 0.33",
        explain=_NO_LIBCUDA,
        fixes=_LINK_IT,
    ),
    Symptom(
        id="libcuda-link",
        patterns=(_COMPILER_FAILED,),
        when=lambda seen: seen.counts.get("libcuda-link", 0) > 0,
        versions="0.5 to 0.33",
        explain=_NO_LIBCUDA,
        fixes=_LINK_IT,
    ),
    Symptom(
        id="libcuda-link",
        patterns=(_NOT_LINKED,),
        notice="dead",
        versions="0.5 to 0.33",
        explain=_NO_LIBCUDA,
        fixes=_LINK_IT,
    ),
    Symptom(
        id="toolkit-too-old",
        patterns=(
            r"FlashInfer requires GPUs with sm75 or higher",
            r"No supported CUDA architectures found for major versions",
            r"nvcc fatal\s*: Unsupported gpu architecture",
            r"Unknown CUDA arch",
            r"nvcc fatal\s*: Unknown option",
            r"nvcc fatal\s*: Value '[^']*' is not defined for option",
        ),
        versions="0.14 to 0.33",
        explain=say(
            "The CUDA toolkit on this machine is too old to compile for this card; the message about sm75 is "
            "misleading when the card is newer."
        ),
        fixes=do(
            "Install CUDA toolkit 12.9 or later and point CUDA_HOME at it.",
            Fix(text="Or do without FlashInfer's sampler.", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        ),
    ),
    Symptom(
        id="toolkit-too-old",
        patterns=(r"detected CUDA version \((?P<has>[\d.]+)\) mismatches.{0,120}?PyTorch \((?P<wants>[\d.]+)\)",),
        versions="any",
        explain=say(
            "A kernel is compiled at boot; the toolkit here is CUDA {has}, and torch was made with {wants}.",
            "A kernel is compiled at boot, and the CUDA toolkit here is of another version than torch's.",
        ),
        fixes=do("Install the toolkit of torch's version, and point CUDA_HOME at it."),
    ),
    Symptom(
        id="cuda-home",
        patterns=(
            r"(?P<file>:?/[^\s:']+/bin/nvcc): not found",
            r"No such file or directory: '(?P<file>[^'\n]+/bin/nvcc)'",
        ),
        when=lambda seen: seen.groups.get("file") != "/usr/local/cuda/bin/nvcc",
        versions="any",
        explain=say(
            "A kernel is compiled at boot, and CUDA_HOME leads to {file}, which is not there.",
            "A kernel is compiled at boot, and CUDA_HOME leads to no compiler.",
        ),
        fixes=do(
            "Correct CUDA_HOME: the one folder above bin/nvcc (`which nvcc` shows it), without a colon.",
            "Without any nvcc install the CUDA toolkit that matches torch.",
            Fix(text="Or do without FlashInfer's sampler.", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        ),
    ),
    Symptom(
        id="no-nvcc",
        patterns=(
            r"Could not find nvcc",
            r"CUDA_HOME (?:environment variable )?is not set",
            r"No such file or directory: '[^']*nvcc'",
            r"nvcc: (?:command )?not found",
            r"Ninja is required to load C\+\+ extensions",
            r"No such file or directory: 'ninja'",
        ),
        versions="0.10 to 0.33",
        explain=say("A kernel must be compiled at boot, and the compiler (nvcc or ninja) is not on this machine."),
        fixes=do(
            "Install the CUDA toolkit that matches torch (and ninja), or use vLLM's container image.",
            Fix(text="Or do without FlashInfer's sampler.", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        ),
    ),
    Symptom(
        id="cuda-headers",
        patterns=(r"fatal error: (?P<file>(?:cu|nv|nccl|thrust/|cub/)[\w./]*\.h(?:pp)?): No such file",),
        versions="0.10 to 0.33",
        explain=say(
            "A kernel is compiled at boot, and {file} of the CUDA toolkit is missing.",
            "A kernel is compiled at boot, and headers of the CUDA toolkit are missing.",
        ),
        fixes=do(
            "Install the whole CUDA toolkit that matches torch, and point CUDA_HOME at it.",
            Fix(text="Or do without FlashInfer's sampler.", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        ),
    ),
    Symptom(
        id="python-headers",
        patterns=(
            r"fatal error: (?P<file>Python\.h|std\w+\.h|cuda\.h|\w+\.h): No such file",
            r"Failed to find C compiler",
            _COMPILER_FAILED,
            r"No such file or directory: '(?:gcc|cc|g\+\+|c\+\+)'",
            r"gcc: (?:command )?not found",
        ),
        versions="0.9 to 0.33",
        explain=say(
            "Triton compiles a small C file at boot, and the compiler or {file} is missing.",
            "Triton compiles a small C file at boot, and the compiler or Python's headers are missing.",
        ),
        fixes=do(
            "Install gcc and the headers of the environment's Python (apt install gcc python3-dev); uv's Pythons "
            "have them."
        ),
    ),
    Symptom(
        id="header-missing",
        patterns=(r"fatal error: (?P<file>[\w./+-]{1,200}): No such file",),
        versions="0.9 to 0.33",
        explain=say(
            "A kernel is compiled at boot, and the header {file} is not on this machine.",
            "A kernel is compiled at boot, and a header is not on this machine.",
        ),
        fixes=do(
            "Install the package that has it: `apt-file search {file}` or `dnf provides '*/{file}'` names it "
            "(sanitizer/ comes with the compiler's libasan and libgcc-dev).",
            "Or use vLLM's container image, which has all that is compiled with.",
        ),
    ),
    Symptom(
        id="host-compiler",
        patterns=(
            r"unsupported GNU version! gcc versions later than (?P<most>\d+) are not supported",
            r"unsupported GNU version",
            r"-- unsupported clang version",
        ),
        versions="any",
        explain=say(
            "A kernel is compiled at boot, and this CUDA toolkit works with gcc {most} at most; the system's is "
            "newer.",
            "A kernel is compiled at boot, and the system's compiler is newer than this CUDA toolkit works with.",
        ),
        fixes=do(
            "Install an older one and let nvcc take it: `apt install g++-12`, NVCC_PREPEND_FLAGS='-ccbin "
            "/usr/bin/g++-12', CC and CXX likewise.",
            "Or a newer CUDA toolkit that matches torch, with CUDA_HOME set to it.",
            Fix(text="Or do without FlashInfer's sampler.", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        ),
    ),
    Symptom(
        id="jit-build",
        patterns=(r"Ninja build failed", r"Error building extension", r"ninja: build stopped"),
        versions="0.10 to 0.33",
        explain=say("A kernel is compiled at boot, and its build failed."),
        fixes=do(
            "Look at the first line of the build with `error:` or `Killed`: a toolkit that does not match torch, or "
            "too little RAM.",
            Fix(text="Compile fewer files at a time.", env={"MAX_JOBS": "2"}),
            Fix(text="Or do without FlashInfer's sampler.", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
        ),
    ),
)
