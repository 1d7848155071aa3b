"""What vLLM is installed with: libraries, packages and plugins that do not belong together, and the system below."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say


def _base(seen: Evidence) -> str:
    return seen.groups["wants"].partition("+")[0]


def _duplicate(seen: Evidence) -> str:
    operator = seen.groups.get("operator")
    named = "an operator" if operator is None else f"the operator {operator}"
    return f"Two packages of vLLM's environment register {named}: a plugin beside what this vLLM has itself."


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="glibc-too-old",
        patterns=(
            r"(?P<file>\S+\.so[\w.]*): version [`'\"](?P<wanted>GLIBC(?:XX)?_[\d.]+)'? not found",
            r"version [`'\"](?P<wanted>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)'? not found",
        ),
        versions="any",
        explain=say(
            "This build needs {wanted} of the system's C or C++ library, which here is older.",
            "This build needs a newer C library than the system has.",
        ),
        fixes=do(
            "Use vLLM's container image or a newer system (`ldd --version` says what there is); a release's wheel "
            "may ask for less than a nightly's.",
            "For GLIBCXX or CXXABI a newer libstdc++ is enough, conda's libstdcxx-ng for one: put its folder "
            "($CONDA_PREFIX/lib) first in LD_LIBRARY_PATH, before the system's.",
        ),
    ),
    Symptom(
        id="libcudart-missing",
        patterns=(
            r"(?P<file>lib(?:cu\w+|nccl|nvrtc|torch\w*|c10\w*|nvJitLink)\.so[\w.]*): cannot open shared object",
            r"undefined symbol: (?P<file>_Z\w+)",
            r"(?P<file>lib\w+\.so[\w.]*): undefined symbol",
            r"ImportError: (?P<file>/\S+\.so\S*): ",
            r"operator torchvision::nms does not exist",
            r"No module named 'vllm\._C'",
            r"'_OpNamespace' '_\w*C\w*' object has no attribute",
        ),
        versions="any",
        explain=say(
            "vLLM and torch do not belong together: {file} is missing or of another version (CUDA 12 and 13 mixed?).",
            "vLLM and torch do not belong together: a library is missing or of another version.",
        ),
        fixes=do("Install both together into a fresh environment: `uv pip install vllm --torch-backend=auto`."),
    ),
    Symptom(
        id="library-missing",
        patterns=(r"(?P<file>[\w+.-]+\.so[\w.]*): cannot open shared object",),
        versions="any",
        explain=say(
            "The system lacks the library {file}, which a Python package of vLLM's environment needs.",
            "The system lacks a library that a Python package of vLLM's environment needs.",
        ),
        fixes=do(
            "Install it with the system's packages (`apt-file search` names the one), or use vLLM's container image."
        ),
    ),
    Symptom(
        id="wrong-build",
        patterns=(r"Could not run '\w+::\w+' with arguments from the '(?P<device>\w+)' backend",),
        versions="any",
        explain=say(
            "This build of vLLM has no such kernel for {device}: it was made for another kind of device.",
            "This build of vLLM was made for another kind of device.",
        ),
        fixes=do("Install the build for this machine: `cockpit engines` says what each one is for."),
    ),
    Symptom(
        id="python-version",
        patterns=(
            r"source code not available",
            r"could not get source code",
            r"unsupported operand type\(s\) for \|: '\w+' and",
            r"cannot import name '(?:Self|override|TypeIs|Never|NotRequired|StrEnum|UTC)' from '(?:typing|enum)'",
            r"No module named '(?:tomllib|imp|distutils|cgi|(?:py)?audioop|pipes|telnetlib)'",
            r"requires a different Python",
            r"excessive stack use: stack is \d+ deep",
        ),
        versions="any",
        explain=say("This vLLM, or a library of it, does not run on this version of Python."),
        fixes=do(
            "Make the environment with Python 3.12, which every vLLM from 0.6 runs on: `uv venv --python 3.12`."
        ),
    ),
    Symptom(
        id="flashinfer-versions",
        patterns=(
            r"flashinfer-(?P<part>cubin|jit-cache) version \((?P<has>[^)]+)\) does not match flashinfer version "
            r"\((?P<wants>[^)]+)\)",
            r"FLASHINFER_DISABLE_VERSION_CHECK",
        ),
        versions="0.11 to 0.33",
        explain=say(
            "flashinfer-{part} is {has}, and flashinfer is {wants}: both must be of one version.",
            "FlashInfer's packages are of different versions.",
        ),
        fixes=lambda seen: [
            Fix(
                text=f"Install both in one version: `uv pip install flashinfer-{seen.groups['part']}=={_base(seen)}`."
            )
            if {"part", "wants"} <= seen.groups.keys()
            else Fix(text="Install flashinfer-python, flashinfer-cubin and flashinfer-jit-cache in one version."),
            Fix(
                text="Or start it without the check; old kernels may crash.",
                env={"FLASHINFER_DISABLE_VERSION_CHECK": "1"},
            ),
        ],
    ),
    Symptom(
        id="plugin-conflict",
        patterns=(
            r"Tried to register an operator \((?P<operator>[\w:]+)\(",
            r"with the same name and overload name multiple times",
        ),
        versions="any",
        explain=_duplicate,
        fixes=do(
            "Uninstall the plugin that this vLLM does not need (`pip list | grep -i vllm`), or use the vLLM that it "
            "is for."
        ),
    ),
    Symptom(
        id="bitsandbytes-plugin",
        patterns=(
            r"Unknown quantization method: bitsandbytes\b",
            r"Load format `bitsandbytes` is not supported",
        ),
        versions="0.28 to 0.33",
        explain=say("Since 0.28 vLLM reads bitsandbytes checkpoints only with a plugin of its own."),
        fixes=do(
            "Install it into the environment of that vLLM: `uv pip install vllm-bnb-plugin`.",
            "Or use a checkpoint in another format (AutoRound, AWQ, GPTQ, FP8).",
        ),
    ),
    Symptom(
        id="package-versions",
        patterns=(
            r"Either a revision or a version must be specified",
            r"numpy\.dtype size changed, may indicate binary incompatibility",
            r"A module that was compiled using NumPy 1\.x cannot be run in NumPy 2",
            r"_ARRAY_API not found",
            r"needs NumPy [\d.]+ or less",
            r"Numpy is not available",
            r"numpy\.core\.multiarray failed to import",
            r"(?P<name>[\w-]{1,99})\s?[<>=!~][\w.,<>=!~ ]{1,60} is required for a normal functioning of this module, "
            r"but found (?P<has>\S+?)\.?(?:\s|$)",
            r"pkg_resources\.\w*VersionConflict",
            r"AttributeError: (?:partially initialized )?module '(?P<name>[\w.]+)' has no attribute",
        ),
        versions="any",
        explain=say(
            "vLLM's environment has {name} in version {has}, which its other packages do not go with.",
            "Packages in vLLM's environment are of versions that do not go together.",
        ),
        fixes=do(
            "Install vLLM anew into an environment of its own, so that it gets the versions that it was tried with."
        ),
    ),
)
