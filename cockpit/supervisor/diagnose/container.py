"""What keeps a container from starting, and what a container does not allow."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import NO_EXPANDABLE_SEGMENTS, do, say


def _command(seen: Evidence) -> str:
    command = seen.groups.get("command", "")
    if command.startswith("-"):
        return f"The image has no entry point: the container runs {command}, a flag, as its program."
    return f"The image has no program {command}." if command else "The image does not have the program that it runs."


def _command_fixes(seen: Evidence) -> list[Fix]:
    if seen.groups.get("command", "").startswith("-"):
        return [Fix(text="Begin the container's command with `vllm serve MODEL`.")]
    return [
        Fix(text="With vllm/vllm-openai give the model and flags only: its entry point is `vllm serve`."),
        Fix(text="With another image name the program by its path (--entrypoint)."),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="driver-too-old-container",
        patterns=(
            r"unsatisfied condition: cuda ?>= ?(?P<cuda>[\d.]+)",
            r"nvidia-container-cli: requirement error",
        ),
        versions="any",
        explain=say(
            "The container needs CUDA {cuda}, which the host's driver does not offer: it never started.",
            "The container needs a newer CUDA than the host's driver offers: it never started.",
        ),
        fixes=do("Update the host's driver, or use an image for an older CUDA."),
    ),
    Symptom(
        id="no-gpu-in-container",
        patterns=(
            r"could not select device driver .{0,20}with capabilities: \[\[gpu\]\]",
            r"unknown runtime specified nvidia",
            r"unknown or invalid runtime name: nvidia",
            r"failed to discover GPU vendor from CDI",
            r"unresolvable CDI devices",
        ),
        versions="any",
        explain=say("The container runtime knows no NVIDIA GPUs: the container cannot have them."),
        fixes=do(
            "Install nvidia-container-toolkit, run `nvidia-ctk runtime configure`, and restart docker.",
            "With CDI (podman, docker 29) also `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`.",
        ),
    ),
    Symptom(
        id="container-driver",
        patterns=(
            r"nvidia-container-cli: (?P<what>[^\n]{3,120}?)(?:: unknown)?\.?(?:\n|$)",
            r"nvidia-container-cli:",
        ),
        versions="any",
        explain=say(
            "The container could not get the GPUs of the host: {what}.",
            "The container could not get the GPUs of the host.",
        ),
        fixes=do(
            "Look at `nvidia-smi` on the host: without a loaded driver, or with another set of cards, no container "
            "gets them.",
            "Correct --gpus and NVIDIA_VISIBLE_DEVICES; after a driver update reboot.",
        ),
    ),
    Symptom(
        id="driver-library",
        patterns=(
            r"(?P<file>libcuda\.so\.1|libnvidia-ml\.so\.1|libnvidia-ptxjitcompiler\.so\.1): cannot open shared "
            r"object",
            r"NVML Shared Library Not Found",
            r"NVMLError_LibraryNotFound",
            r"Device string must not be empty",
        ),
        versions="any",
        explain=say(
            "The driver's library {file} is not found: the container was started without GPUs, or the library is "
            "not on its path, or the machine has no NVIDIA driver.",
            "The driver's libraries are not found: the container was started without GPUs, or they are not on its "
            "path, or the machine has no NVIDIA driver.",
        ),
        fixes=do(
            "Start the container with --gpus all; a pod needs runtimeClassName: nvidia and a limit of "
            "nvidia.com/gpu. `nvidia-smi` must work in it.",
            "Where the driver is mounted (GKE: /usr/local/nvidia/lib64) put that folder into LD_LIBRARY_PATH.",
        ),
    ),
    Symptom(
        id="container-command",
        patterns=(
            r'exec: "(?P<command>[^"\n]{1,100})": (?:executable file not found|stat [^\n]{1,200}no such file)',
            r"executable file not found in \$PATH",
        ),
        versions="any",
        explain=_command,
        fixes=_command_fixes,
    ),
    Symptom(
        id="ptrace",
        patterns=(r"pidfd_(?:getfd|open)\b[^\n]{0,80}Operation not permitted",),
        versions="any",
        explain=say(
            "The server's processes may not share GPU memory with each other: the container, or the kernel's "
            "ptrace_scope, forbids it."
        ),
        fixes=do(
            "Start the container with --cap-add=SYS_PTRACE, or set kernel.yama.ptrace_scope to 0.",
            NO_EXPANDABLE_SEGMENTS,
        ),
    ),
    Symptom(
        id="user-unknown",
        patterns=(r"getpwuid\(\): uid not found: (?P<uid>\d+)", r"No username set in the environment"),
        versions="any",
        explain=say(
            "The container runs as user {uid}, who has no entry in its /etc/passwd, and PyTorch asks for his name.",
            "The server runs as a user without a name, and PyTorch asks for it.",
        ),
        fixes=do(
            Fix(text="Give the user a name.", env={"USER": "vllm"}),
            "HOME and the caches (HF_HOME, VLLM_CACHE_ROOT, TRITON_CACHE_DIR) must be writable for him too.",
        ),
    ),
    Symptom(
        id="container-image",
        patterns=(
            r"manifest (?:unknown|for (?P<image>\S+) not found)",
            r"pull access denied for (?P<image>[^\s,]+)",
            r"no matching manifest for (?P<image>\S+)",
            r"failed to resolve reference \"(?P<image>[^\"\n]+)\"[^\n]*not found",
        ),
        versions="any",
        explain=say(
            "There is no image {image} for this machine in its registry.",
            "There is no such image for this machine in its registry.",
        ),
        fixes=do(
            "Correct the name and the tag: vllm/vllm-openai has one a release, `v0.32.0`; `docker login` if private."
        ),
    ),
)
