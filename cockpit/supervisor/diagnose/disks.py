"""Disks and shared memory: full, failing, locked, not to be written, or with paths that are too long."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Fix, Symptom
from cockpit.supervisor.diagnose.words import do, reason, say

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="lock-held",
        patterns=(r"[Ff]ile lock '(?P<file>[^'\n]+)' could not be acquired",),
        versions="any",
        explain=say(
            "Another process holds {file}: it downloads or compiles the same, or it died and the disk kept the lock.",
            "Another process holds a lock of the cache: it downloads or compiles the same.",
        ),
        fixes=do(
            "Wait until the other one is done, or end it; on a network disk delete the lock file when nobody has it."
        ),
    ),
    Symptom(
        id="shm-too-small",
        patterns=(
            r"Error while creating shared memory segment (?P<file>\S+)",
            r"posix_fallocate failed",
            r"/dev/shm[^\n]{0,200}(?:No space left|too small|Bus error|insufficient)",
            r"No space left on device[^\n]{0,200}/dev/shm",
            r"unable to (?:allocate|write|resize|open) shared memory[^\n]{0,200}No space left",
            r"unable to (?:write|resize|mmap)[^\n]{0,40}</?torch_[^\n]{0,120}No space left",
            r"No space left on device: '/?(?:psm|torch|nccl|sem)[._-]\w+'",
            r"(?:insufficient|not enough|out of) shared memory",
            r"DataLoader worker .{0,60}killed by signal: Bus error",
        ),
        versions="any",
        explain=say("/dev/shm is too small for the processes of one server to talk through; a container gets 64 MB."),
        fixes=do(
            "Start the container with --ipc=host or --shm-size=8g (podman-compose ignores ipc).",
        ),
    ),
    Symptom(
        id="disk-fault",
        patterns=(
            r"\[Errno 5\] Input/output error",
            r"\[Errno 116\]",
            r"\[Errno 107\] Transport endpoint is not connected",
            r"\[Errno 103\]",
            r"\[Errno 117\]",
        ),
        versions="any",
        explain=lambda seen: f"The disk or the network share that holds the files failed: {reason(seen)}.",
        fixes=do(
            "Look at `dmesg` and mount the share anew; a copy of the model on a local disk does without it.",
        ),
    ),
    Symptom(
        id="path-too-long",
        patterns=(r"is longer than \d+ characters", r"AF_UNIX path too long", r"\[Errno 36\] File name too long"),
        versions="any",
        explain=say("A path is longer than the system takes: a socket's may have some 100 characters."),
        fixes=do(
            Fix(text="Let the sockets and temporary files lie in /tmp.", env={"TMPDIR": None}),
            "Or set VLLM_RPC_BASE_PATH, or the cache that the message names, to a short path.",
        ),
    ),
    Symptom(
        id="disk-full",
        patterns=(
            r"No space left on device",
            r"[Nn]ot enough free disk space",
            r"Disk quota exceeded",
            r"\[Errno 28\]",
            r"\[Errno 122\]",
        ),
        versions="any",
        explain=say("A disk is full: the model's cache, /tmp or a compile cache."),
        fixes=do(
            "Make room, or point HF_HOME at a larger disk; ~/.cache/vllm, ~/.triton and /tmp grow too.",
        ),
    ),
    Symptom(
        id="permission",
        when=lambda seen: not seen.in_frames(r":(?:create_server_socket|bind)$"),
        patterns=(
            r"(?P<file>\S+): Permission denied$",
            r"PermissionError: (?:\[Errno 13\] )?[^\n]*?['\"](?P<file>[^'\"\n]+)",
            r"\[Errno 30\] Read-only file system(?:: '(?P<file>[^'\n]+))?",
            r"\[Errno 1\] Operation not permitted: '(?P<file>[^'\n]+)",
            r"\[Errno 13\] Permission denied",
        ),
        versions="any",
        explain=say(
            "The server may not read or write {file}.",
            "The server may not read or write one of its files.",
        ),
        fixes=do("Correct the owner or the mode of it, or point the caches (HF_HOME, VLLM_CACHE_ROOT) elsewhere."),
    ),
)
