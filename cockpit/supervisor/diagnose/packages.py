"""Installation: what pip and uv say, folders in the way of a package, add-ons made for another torch."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say

_FRESH = (
    "Install vLLM into an environment of its own: `uv venv --python 3.12`, then `uv pip install vllm "
    "--torch-backend=auto`."
)
_ON_WINDOWS = "vLLM does not run on Windows itself, whose Python has no {name}."


def _index_fixes(seen: Evidence) -> list[Fix]:
    build = seen.groups.get("build", "cpu")
    return [
        Fix(
            text=f"Add PyTorch's index: --extra-index-url https://download.pytorch.org/whl/{build}, with uv "
            f"--torch-backend={build}."
        ),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="torch-index",
        patterns=(
            r"satisfies the requirement torch\w*==[\d.]+\+(?P<build>\w+)",
            r"no version of torch\w*==[\d.]+\+(?P<build>\w+)",
        ),
        versions="any",
        explain=say(
            "This vLLM needs a torch for {build}, which is on PyTorch's own index and not on PyPI.",
            "This vLLM needs a torch that is on PyTorch's own index and not on PyPI.",
        ),
        fixes=_index_fixes,
    ),
    Symptom(
        id="no-wheel",
        patterns=(
            r"satisfies the requirement vllm\S*",
            r"No matching distribution found for vllm",
            r"vllm\S*\.whl is not a supported wheel on this platform",
            r"vllm\S* has no (?:wheels|usable wheels|wheel)\b",
        ),
        versions="any",
        explain=say(
            "There is no wheel of that vLLM for this Python and machine: there are some for Linux (x86_64, and "
            "aarch64 of newer releases) and Python 3.10 to 3.13."
        ),
        fixes=do(
            _FRESH,
            "On another machine use the container image, or build it from source; on Windows WSL2.",
        ),
    ),
    Symptom(
        id="built-from-source",
        patterns=(r"RuntimeError: Unknown runtime environment",),
        versions="any",
        explain=say(
            "pip builds vLLM from source here, because it found no wheel for this Python and machine, and the build "
            "found no CUDA, ROCm or CPU to build for."
        ),
        fixes=do(
            _FRESH,
            "To build for a processor only set VLLM_TARGET_DEVICE=cpu; for CUDA install its toolkit and torch "
            "first, then build with --no-build-isolation.",
        ),
    ),
    Symptom(
        id="windows",
        patterns=(r"Building on win32",),
        versions="any",
        explain=say("vLLM does not run on Windows itself, and has no wheel for it."),
        fixes=do("Run it in WSL2 or in docker."),
    ),
    Symptom(
        id="build-compiler",
        patterns=(
            r"CMakeCUDACompilerId\.cu",
            r"Compiling the CUDA compiler identification",
            r"No CMAKE_CUDA_COMPILER could be found",
            r"CMAKE_CUDA_COMPILER-NOTFOUND",
        ),
        versions="any",
        explain=say(
            "vLLM is built from source, and CMake's trial of nvcc failed: the toolkit is missing, or the system's "
            "own nvcc (/usr/bin) does not go with its gcc."
        ),
        fixes=do(
            "Name the one of NVIDIA's toolkit: CUDA_HOME=/usr/local/cuda, CUDACXX=/usr/local/cuda/bin/nvcc, and put "
            "its bin first in PATH.",
            "Or take a wheel: " + _FRESH,
        ),
    ),
    Symptom(
        id="build-toolkit-newer",
        patterns=(r"CUDA::nvToolsExt", r"torch::nvtoolsext", r"LIBNVTOOLSEXT"),
        versions="any",
        explain=say(
            "vLLM is built from source against a torch that links nvToolsExt, which newer toolkits (12.9 and later) "
            "do not have."
        ),
        fixes=do(
            "Use the toolkit of torch's own CUDA version (CUDA_HOME), or a newer torch.",
            "Or take a wheel: " + _FRESH,
        ),
    ),
    Symptom(
        id="built-from-source",
        reports=True,
        patterns=(
            r"Failed (?:building (?:wheel|editable) for|to build) `?vllm",
            r"Could not build wheels for vllm",
        ),
        versions="any",
        explain=say(
            "The build of vLLM from source failed: its first `error` above says why. pip builds when it finds no "
            "wheel for this Python and machine, or in a clone."
        ),
        fixes=do(
            "Take a wheel instead: " + _FRESH,
            "In a clone: VLLM_USE_PRECOMPILED=1 takes the compiled parts of a wheel; a full build needs torch's "
            "CUDA toolkit and MAX_JOBS as the RAM allows.",
        ),
    ),
    Symptom(
        id="no-wheel",
        patterns=(r"there is no version of (?P<package>[\w-]+)[^\n]*?==(?P<version>[\w.+]+)",),
        versions="any",
        explain=say(
            "vLLM needs {package} {version}, which no index of the command has: a nightly asks for others' "
            "nightlies.",
            "vLLM needs a package in a version that no index of the command has.",
        ),
        fixes=do(
            "Install a release, `uv pip install vllm --torch-backend=auto`.",
            "Or add the index that has it, and let uv look into all: --index-strategy unsafe-best-match.",
        ),
    ),
    Symptom(
        id="packages-conflict",
        patterns=(
            r"Because (?P<first>vllm\S*) depends on (?P<wants>\S+)\s+and\s+you\s+require\s+(?P<has>\S+?),",
            r"(?P<first>vllm \S+) depends on (?P<wants>\S+)",
            r"(?P<first>vllm \S+) requires (?P<wants>[^,\s]+), but you(?:'ll)? have (?P<has>\S+ \S+) which is "
            r"incompatible",
        ),
        versions="any",
        explain=say(
            "{first} needs {wants}, and {has} is asked for or installed beside it.",
            "vLLM and another package of the environment need different versions of one library.",
        ),
        fixes=do(
            _FRESH,
            "Or drop the pin of the other package, or take the vLLM release that was made with its version.",
        ),
    ),
    Symptom(
        id="packages-conflict",
        reports=True,
        patterns=(
            r"No solution found when resolving",
            r"ResolutionImpossible",
            r"these package versions have conflicting dependencies",
            r"requirements are unsatisfiable",
        ),
        versions="any",
        explain=say("The packages that are asked for need different versions of one library: nothing was installed."),
        fixes=do(
            _FRESH,
            "Or drop the pins of other packages in that command; the lines below name the two that do not go "
            "together.",
        ),
    ),
    Symptom(
        id="system-python",
        patterns=(r"externally-managed-environment",),
        versions="any",
        explain=say("The system's own Python takes no packages from pip."),
        fixes=do(_FRESH),
    ),
    Symptom(
        id="windows",
        patterns=(r"No module named '(?P<name>resource|fcntl|pwd|grp|termios)'",),
        versions="any",
        explain=say(_ON_WINDOWS, "vLLM does not run on Windows itself."),
        fixes=do("Run it in WSL2 or in docker."),
    ),
    Symptom(
        id="windows",
        patterns=(r"No module named '(?P<name>uvloop)'",),
        versions="any",
        explain=say(
            "{name} is not installed: on Windows there is none, and vLLM does not run there; elsewhere the "
            "installation is not whole.",
            "A package is not installed that there is none of on Windows, where vLLM does not run.",
        ),
        fixes=do("On Windows run it in WSL2 or in docker.", "On Linux: " + _FRESH),
    ),
    Symptom(
        id="made-for-another-vllm",
        patterns=(r"No module named 'vllm\.(?P<part>(?!_)[\w.]+)'$",),
        versions="any",
        explain=say(
            "A program, plugin or model's code asks for vllm.{part}, which this vLLM does not have: it was made for "
            "another release.",
            "A program, plugin or model's code was made for another release of vLLM.",
        ),
        fixes=do(
            "Install the release that it names (parts of V0, such as vllm.worker, are gone since 0.11), or a newer "
            "version of it.",
            "If nothing else asks for it vLLM is not whole: " + _FRESH,
        ),
    ),
    Symptom(
        id="module-shadowed",
        patterns=(
            r"cannot import name '\w+' from '(?P<name>vllm)' \(/(?!\S*(?:site|dist)-packages)",
            r"'(?P<name>vllm)' is not a package",
            r"module '(?P<name>vllm)' has no attribute '(?:LLM|SamplingParams|EngineArgs|__version__)'",
            r"partially initialized module "
            r"'(?P<name>(?!torch|vllm)\w+)'[^\n]*\((?!\S*(?:site|dist)-packages)/[^)\n]*\)",
        ),
        versions="any",
        explain=say(
            "Python found another {name} before the installed package: a file or folder of that name, or a clone of "
            "its repository, where the command runs.",
            "Python found another package of that name first: a file or folder where the command runs.",
        ),
        fixes=do("Run it from another folder (`cd ~`), or rename the file or folder that is in the way."),
    ),
    Symptom(
        id="web-packages",
        patterns=(r"'_IncludedRouter' object has no attribute",),
        versions="0.6 to 0.24",
        explain=say(
            "fastapi 0.137 and later does not go with the prometheus-fastapi-instrumentator beside it: every "
            "request fails."
        ),
        fixes=do(
            "Install an older one into vLLM's environment: `uv pip install 'fastapi<0.137'`.",
            "Or upgrade vLLM or prometheus-fastapi-instrumentator.",
        ),
    ),
    Symptom(
        id="web-packages",
        patterns=(
            r"PydanticUndefinedType' object is not subscriptable",
            r"Unable to evaluate type annotation 'Required\[",
            r"'FieldInfo' object has no attribute 'required'",
        ),
        versions="any",
        explain=say(
            "Packages in vLLM's environment are of versions that do not go together: one was made for another "
            "pydantic."
        ),
        fixes=do(
            "Upgrade those that the traceback names: `uv pip install -U pydantic fastapi openai`, and deepspeed, "
            "peft and accelerate if they are there; what vLLM does not need may go.",
            _FRESH,
        ),
    ),
    Symptom(
        id="package-too-old",
        patterns=(
            r"cannot import name '(?P<symbol>\w+)' from "
            r"'(?P<package>pydantic|fastapi|starlette|openai|typing_extensions"
            r"|huggingface_hub|safetensors|tokenizers|compressed_tensors|xgrammar|mistral_common|numpy|google|protobuf)"
            r"[\w.]*'",
        ),
        versions="any",
        explain=say(
            "{package} in vLLM's environment is of a version without {symbol}, which vLLM or another package asks "
            "for.",
            "A package in vLLM's environment is of another version than one that uses it asks for.",
        ),
        fixes=do(
            "`pip check` names which versions do not go together; `uv pip install -U vllm` brings those that it "
            "asks for.",
            _FRESH,
        ),
    ),
    Symptom(
        id="add-on-abi",
        patterns=(
            r"(?:site|dist)-packages/(?P<package>(?!vllm|torch/|torch_|nvidia/|functorch)\w+)[^\s:]*\.so[\w.]*: "
            r"undefined symbol",
            r"(?P<package>flash_attn)_\w+\.\S*so[\w.]*: undefined symbol",
            r"(?P<package>xformers) was built for",
        ),
        versions="any",
        explain=say(
            "The package {package} was built for another torch than the one that vLLM has here.",
            "A package was built for another torch than the one that vLLM has here.",
        ),
        fixes=lambda seen: [
            Fix(
                text=f"If nothing needs it uninstall it: `uv pip uninstall {_distribution(seen)}`; vLLM brings its "
                f"own kernels."
            ),
            Fix(
                text="Or build it for this torch: `uv pip install --no-build-isolation --no-cache --force-reinstall "
                f"--no-deps {_distribution(seen)}`."
            ),
        ],
    ),
    Symptom(
        id="library-path",
        patterns=(
            r"undefined symbol: __nvJitLink\w+",
            r"symbol \w+,? version lib(?:cu|nv)\w+\.so[\w.]* not defined",
            r"lib(?:cudnn|cublas|cusparse|cufft)\w*\.so[\w.]*: (?:undefined symbol|version `)",
        ),
        versions="any",
        explain=say(
            "Another CUDA's libraries are loaded instead of those that torch brings: LD_LIBRARY_PATH or the system "
            "leads to them, or torch's NVIDIA packages are of different versions."
        ),
        fixes=do(
            Fix(text="Start it without that variable.", env={"LD_LIBRARY_PATH": None}),
            _FRESH,
        ),
    ),
)


def _distribution(seen: Evidence) -> str:
    """The package's name for pip; a compiled part is called after it."""
    name = seen.groups.get("package", "")
    known = {"flash_attn": "flash-attn", "torchac": "lmcache"}
    return next(
        (known[part] for part in known if name.startswith(part)), name.removesuffix("_cuda").replace("_", "-")
    )
