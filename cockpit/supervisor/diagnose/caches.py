"""Where vLLM writes: kernel caches, temporary files, shared memory; and what a container lets it bind."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, say, without

_LOCAL: dict[str, str | None] = {
    "TRITON_CACHE_DIR": "/tmp/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor",
    "VLLM_CACHE_ROOT": "/tmp/vllm",
}
_KERNELS = r"(?:\.triton|triton[_/]|torchinductor|torch_compile_cache|\.cache/(?:vllm|flashinfer))"


def _several(seen: Evidence) -> str:
    return (
        "Two processes, or two servers, wrote the same file of the kernel cache at once, or the cache lies on a "
        "network share."
    )


_LOCKED = say("The network cards may not lock memory for transfers (RDMA): the limit of locked memory is too low.")
_LOCKED_FIXES = do(
    "Start the container with --ulimit memlock=-1 (and --cap-add IPC_LOCK); in a unit LimitMEMLOCK=infinity.",
    Fix(text="Or do without RDMA, over sockets, which is slower.", env={"NCCL_IB_DISABLE": "1"}),
)


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="kernel-cache",
        patterns=(
            rf"^FileNotFoundError: [^\n]*{_KERNELS}[^\n]*(?:tmp|\.(?:cubin|so|json|ptx|ttir|py|lock))",
            rf"^OSError: \[Errno (?:116|16|39|17)\][^\n]*{_KERNELS}",
            rf"^FileExistsError: [^\n]*{_KERNELS}",
        ),
        versions="any",
        explain=_several,
        fixes=do(
            Fix(text="Keep the kernels on a disk of this machine.", env=_LOCAL),
            "Or start again: what one of them compiled is there now; if it stays delete the folder that is named.",
        ),
    ),
    Symptom(
        id="no-temp-folder",
        patterns=(r"No usable temporary directory found",),
        versions="any",
        explain=say(
            "There is no folder for temporary files that the server may write to: the file system is read-only."
        ),
        fixes=do(
            "Mount a writable /tmp (Kubernetes: an emptyDir; docker: --tmpfs /tmp), or set TMPDIR to a folder that "
            "is.",
            "The caches need one too: HOME, HF_HOME, VLLM_CACHE_ROOT, TRITON_CACHE_DIR.",
        ),
    ),
    Symptom(
        id="permission",
        patterns=(
            rf"PermissionError: [^\n]*'(?P<file>[^'\n]*{_KERNELS}[^'\n]*)'",
            rf"\[Errno 30\] Read-only file system: '(?P<file>[^'\n]*{_KERNELS}[^'\n]*)'",
        ),
        versions="any",
        explain=say(
            "The server may not write {file}, where kernels are cached: it is another user's, or read-only.",
            "The server may not write where kernels are cached.",
        ),
        fixes=do(
            Fix(text="Give it a folder of its own.", env=_LOCAL),
            "Or correct the owner of the folder; a container needs a HOME that its user may write.",
        ),
    ),
    Symptom(
        id="permission",
        patterns=(
            r"PermissionError: [^\n]*'(?P<file>/\.(?:cache|config|local|triton|nv)\b[^'\n]*)'",
            r"Read-only file system: '(?P<file>/\.(?:cache|config|local|triton|nv)\b[^'\n]*)'",
        ),
        versions="any",
        explain=say(
            "The server may not write {file}: its user has no home, so that HOME is /.",
            "The server may not write below /: its user has no home.",
        ),
        fixes=do(
            Fix(text="Give it a home that it may write.", env={"HOME": "/tmp"}),
            "Mount a volume for HF_HOME, so that the model is not downloaded each time.",
        ),
    ),
    Symptom(
        id="cache-not-writable",
        patterns=(r"cannot cache function '[^'\n]+': no locator available",),
        versions="any",
        explain=say(
            "numba finds no folder that it may write its compiled functions to: home and packages are read-only."
        ),
        fixes=do(
            Fix(text="Give it one.", env={"NUMBA_CACHE_DIR": "/tmp/numba"}), "And a HOME that may be written to."
        ),
    ),
    Symptom(
        id="shm-too-small",
        patterns=(r"\[Errno 28\]", r"\[Errno 12\] Cannot allocate memory"),
        frames=r"(?:synchronize|shared_memory|shm_broadcast|shm_object_storage|heap)\.py:\w+$",
        versions="any",
        explain=say(
            "/dev/shm is full or too small (a container gets 64 MB): the processes of a server talk through it."
        ),
        fixes=do(
            "Start the container with --ipc=host or --shm-size=8g; in Kubernetes mount an emptyDir with medium: "
            "Memory.",
            "`ls -l /dev/shm` shows what dead servers left there; `cockpit doctor` finds what belonged to its own.",
        ),
    ),
    Symptom(
        id="memory-binding",
        patterns=(
            r"numa_migrate_pages failed",
            r"setting membind: Operation not permitted",
            r"set_mempolicy: Operation not permitted",
            r"numa_(?:set|bind|membind)\w*[^\n]{0,40}(?:failed|not permitted)",
        ),
        versions="any",
        explain=say("The container may not bind memory to a NUMA node, which the server was about to do."),
        fixes=do(
            "Start the container with --cap-add SYS_NICE (and --security-opt seccomp=unconfined).",
            without("numa_bind"),
            without("numa_bind_nodes"),
            "The CPU build does without it where VLLM_CPU_OMP_THREADS_BIND=nobind is set.",
        ),
    ),
    Symptom(
        id="locked-memory",
        patterns=(r"ibv_\w+ failed with error Cannot allocate memory",),
        versions="any",
        explain=_LOCKED,
        fixes=_LOCKED_FIXES,
    ),
    Symptom(
        id="locked-memory",
        patterns=(r"NCCL[^\n]{0,200}unhandled system error", r"ncclSystemError"),
        when=lambda seen: seen.counts.get("locked-memory", 0) > 0,
        versions="any",
        explain=_LOCKED,
        fixes=_LOCKED_FIXES,
    ),
    Symptom(
        id="locked-memory",
        notice="dead",
        patterns=(r"ibv_\w+ failed with error Cannot allocate memory",),
        versions="any",
        explain=_LOCKED,
        fixes=do("Start the container with --ulimit memlock=-1."),
    ),
    Symptom(
        id="threads-forbidden",
        patterns=(r"pthread_create failed[^\n]{0,60}Operation not permitted",),
        versions="any",
        explain=say("The container may start no threads: its docker is older than the C library of the image."),
        fixes=do(
            "Update docker (20.10.10 or later) and libseccomp, or start it with --security-opt seccomp=unconfined.",
        ),
    ),
)
