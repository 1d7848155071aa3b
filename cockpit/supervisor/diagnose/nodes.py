"""Several machines, Ray between them, and the libraries that move experts' tokens."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import do, less_utilization, say, without

_NVLS = say(
    "NCCL could not set up the multicast of the NVLink switch (NVLS): the fabric manager or a switch is in a wrong "
    "state, or the container may not use it."
)
_NVLS_FIXES = do(
    Fix(text="Do without it; NVLink itself stays in use.", env={"NCCL_NVLS_ENABLE": "0"}),
    "Then restart nvidia-fabricmanager with no GPU in use, or reboot; `nvidia-smi -q` must show Fabric: Completed.",
)
_MP = "On one machine leave Ray out: --distributed-executor-backend mp."


_NCCL_MEMORY = say("The GPU was full when NCCL asked for its buffers, which lie outside of vLLM's share.")


def _nccl_memory_fixes(seen: Evidence) -> list[Fix]:
    return [
        *less_utilization(seen, by=0.05),
        Fix(text="Look at `nvidia-smi` for another program, or a dead server's process, on the same GPU."),
    ]


def _versions(seen: Evidence) -> str:
    theirs = re.search(r"cluster was started with:\s+Ray: (\S+)\s+Python: (\S+)", seen.incident.text)
    ours = re.search(r"This process[^\n]*started with:\s+Ray: (\S+)\s+Python: (\S+)", seen.incident.text)
    if theirs is None or ours is None:
        return "The nodes of the Ray cluster have different versions of Ray or Python."
    there, here = (f"Ray {found[1]} on Python {found[2]}" for found in (theirs, ours))
    return f"The Ray cluster runs {there}, and this node has {here}."


def _too_few(seen: Evidence) -> str:
    if seen.arguments.get("distributed_executor_backend") == "ray":
        return "This vLLM counts the GPUs of one machine only, although Ray has more: a fault of 0.11.1 and 0.11.2."
    return (
        f"The command splits the model over {seen.groups['wanted']} GPUs, and this machine has "
        f"{seen.groups['there']}; "
        "without more it counts on this one alone."
        if {"wanted", "there"} <= seen.groups.keys()
        else "The command splits the model over more GPUs than this machine has."
    )


def _too_few_fixes(seen: Evidence) -> list[Fix]:
    if seen.arguments.get("distributed_executor_backend") == "ray":
        return [Fix(text="Upgrade vLLM (0.12 or later), or go back to 0.11.0.")]
    there = seen.groups.get("there", "")
    here = {"tensor_parallel": int(there)} if there in ("1", "2", "4", "8") else {}
    return [
        Fix(
            text="Over several machines say so on each: --nnodes N --node-rank R --master-addr ADDRESS (0.12 and "
            "later), or --distributed-executor-backend ray on the head of a Ray cluster."
        ),
        Fix(
            text="Or --tensor-parallel-size as one machine has GPUs, and --pipeline-parallel-size as there are "
            "machines."
        ),
        Fix(text=f"On this machine alone: tensor parallel {there or 1}.", set=here),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="ray-versions",
        patterns=(r"Version mismatch: The cluster was started with",),
        versions="any",
        explain=_versions,
        fixes=do(
            "Install the same Ray and Python on every node, most simply by the same container image, and start the "
            "cluster again (`ray stop`, `ray start`).",
            _MP,
        ),
    ),
    Symptom(
        id="ray-down",
        patterns=(
            r"Unable to register worker with raylet",
            r"Failed to register worker \w+ to Raylet",
            r"local raylet died",
            r"node with (?:node )?id[^\n]{0,160}marked dead",
            r"Could not find any running Ray instance",
            r"[Ff]ailed to connect to (?:the )?(?:GCS|Ray cluster)",
            r"Unable to connect to (?:GCS|Ray)",
            r"Timed out waiting for (?:file|the GCS)[^\n]{0,80}(?:ray|gcs)",
        ),
        versions="any",
        explain=say("Ray, which was to start the workers, does not run here or does not answer."),
        fixes=do(
            _MP,
            "Over several start the cluster anew (`ray stop --force`, then `ray start`): each node must reach the "
            "head's port, and the clocks, Ray and Python be the same.",
        ),
    ),
    Symptom(
        id="ray-worker-died",
        reports=True,
        patterns=(
            r"actor died unexpectedly before finishing this task",
            r"ActorDiedError",
            r"ActorUnavailableError",
            r"Worker unexpectedly exits with a connection error",
        ),
        when=lambda seen: "SIGKILL" not in seen.incident.text,
        versions="any",
        explain=say(
            "A worker that Ray had started died without a word of its own: killed for want of RAM, or crashed."
        ),
        fixes=do(
            "Look at `dmesg` on its node for `Killed process` and Xid lines, and into /tmp/ray/session_latest/logs.",
            _MP,
        ),
    ),
    Symptom(
        id="too-few-gpus",
        patterns=(
            r"Tensor parallel size \((?P<wanted>\d+)\) cannot be larger than the number of available GPUs "
            r"\((?P<there>\d+)\)",
            r"local_world_size \((?P<wanted>\d+)\) must be less than or equal to the number of visible devices "
            r"\((?P<there>\d+)\)",
            r"world_size \((?P<wanted>\d+)\) is less than than max local gpu count \((?P<there>\d+)\)",
        ),
        versions="0.5 to 0.33",
        explain=_too_few,
        fixes=_too_few_fixes,
    ),
    Symptom(
        id="nodes-unsupported",
        patterns=(r"inner dp world group is not initialized",),
        versions="0.17 to 0.19",
        explain=say(
            "This vLLM fails when it splits a model over several machines without Ray: a fault of its version."
        ),
        fixes=do("Upgrade vLLM.", "Or use Ray over the machines: --distributed-executor-backend ray."),
    ),
    Symptom(
        id="nodes-missing",
        patterns=(
            r"DistStoreError: wait timeout",
            r"waitForInput: [^\n]{0,160}timed out",
        ),
        versions="any",
        explain=say(
            "A process waited for the others in vain: another machine or rank did not start, died, or cannot reach "
            "the first one.",
        ),
        fixes=do(
            "Look at the log of every other node and rank: the one that ended first, or wrote nothing, is the cause.",
            "Each must be started with the same sizes and its own rank, and reach the first one's address: name the "
            "shared interface in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, and open its ports.",
        ),
    ),
    Symptom(
        id="side-channel-port",
        patterns=(r"Address already in use[^\n]{0,60}:(?P<port>5557|5600|5601|14579)\b",),
        frames=r"(?:nixl|connector|kv_events|mooncake)\w*\.py:",
        versions="0.9 to 0.33",
        explain=say(
            "Another server on this machine has port {port}, by which KV connectors meet; --port does not change it.",
            "Another server on this machine has the port by which KV connectors meet; --port does not change it.",
        ),
        fixes=do(
            "Give each server one of its own: VLLM_NIXL_SIDE_CHANNEL_PORT (NIXL), or the endpoint of "
            "--kv-events-config."
        ),
    ),
    Symptom(
        id="all2all-missing",
        patterns=(
            r"(?P<name>DeepEP|PPLX|pplx|MoRI|mori|NIXL EP)[^\n]{0,20} not found",
            r"(?P<name>DeepEP|PPLX|pplx|MoRI|mori|NIXL EP) kernels not found",
            r"No module named '(?P<name>deep_ep|pplx_kernels|mori)",
        ),
        versions="0.9 to 0.33",
        explain=say(
            "The command asks for {name} to move tokens between experts' GPUs, and it is not installed.",
            "The command asks for a library to move tokens between experts' GPUs, and it is not installed.",
        ),
        fixes=do(
            without("all2all_backend", " and let vLLM choose"),
            Fix(text="Or unset it.", env={"VLLM_ALL2ALL_BACKEND": None}),
            "Or install it (vLLM's tools/ep_kernels), or use an image that has it.",
        ),
    ),
    Symptom(
        id="nvshmem",
        patterns=(
            r"nvshmem[^\n]{0,200}(?:failed|error|non-zero status|abort)",
            r"NVSHMEM[^\n]{0,120}(?:failed|ERROR|error|aborting|before NVSHMEM initialization)",
        ),
        versions="0.9 to 0.33",
        explain=say("NVSHMEM, by which DeepEP moves tokens between experts' GPUs, could not start on this machine."),
        fixes=do(
            without("all2all_backend", " and let vLLM choose"),
            "Over several machines it needs InfiniBand with GPU access: /dev/infiniband in the container, IPC_LOCK, "
            "and the driver's options NVreg_EnableStreamMemOPs=1 and PeerMappingOverride=1.",
        ),
    ),
    Symptom(
        id="nccl-nvls",
        patterns=(
            r"Failed to bind NVLink SHARP",
            r"NVLS\) Multicast[^\n]{0,80}(?:error|failed)",
            r"NCCL_NVLS_ENABLE=0",
        ),
        versions="any",
        explain=_NVLS,
        fixes=_NVLS_FIXES,
    ),
    Symptom(
        id="nccl-nvls",
        patterns=(r"unhandled cuda error", r"ncclUnhandledCudaError", r"unhandled system error"),
        when=lambda seen: seen.counts.get("nccl-nvls", 0) > 0,
        versions="any",
        explain=_NVLS,
        fixes=_NVLS_FIXES,
    ),
    Symptom(
        id="nccl-nvls",
        notice="dead",
        patterns=(r"transport/nvls\.cc:\d+[^\n]{0,40}NCCL WARN", r"NCCL WARN [^\n]{0,60}NVLS"),
        versions="any",
        explain=_NVLS,
        fixes=_NVLS_FIXES,
    ),
    Symptom(
        id="ray-socket",
        patterns=(r"Could not connect to socket (?P<file>/\S*(?:raylet|plasma_store)\S*)",),
        versions="any",
        explain=say(
            "Ray's processes meet at the socket {file}, which does not answer: its folder is on a network share or "
            "of another cluster, or Ray has died.",
            "Ray's processes meet at a socket that does not answer.",
        ),
        fixes=do(
            "Start Ray anew with its folder on a disk of each machine: `ray stop`, then `ray start --temp-dir "
            "/tmp/ray …`.",
            _MP,
        ),
    ),
    Symptom(
        id="host-address",
        patterns=(r"^(?:\w+\.)*gaierror\b", r"^(?:\w+\.)*OSError: \[Errno (?:101|99|97|19)\]"),
        frames=r":(?:get_ip|get_loopback_ip|get_open_port|_get_open_port|get_distributed_init_method|get_node_ip\w*)$",
        versions="any",
        explain=say(
            "vLLM finds no address of this machine: its name is in no /etc/hosts or DNS, or it has no route."
        ),
        fixes=do(
            Fix(text="On one machine name the loopback address.", env={"VLLM_HOST_IP": "127.0.0.1"}),
            "Over several give each its own address in VLLM_HOST_IP; a line of /etc/hosts for the machine's name "
            "helps too.",
        ),
    ),
    Symptom(
        id="nccl-memory",
        patterns=(
            r"NCCL[^\n]{0,300}[\s\S]{0,300}Cuda failure (?:2 )?'out of memory'",
            r"NCCL WARN Cuda failure (?:2 )?'out of memory'",
        ),
        versions="any",
        explain=_NCCL_MEMORY,
        fixes=_nccl_memory_fixes,
    ),
    Symptom(
        id="nccl-memory",
        patterns=(r"unhandled cuda error", r"ncclUnhandledCudaError"),
        when=lambda seen: seen.counts.get("nccl-memory", 0) > 0,
        versions="any",
        explain=_NCCL_MEMORY,
        fixes=_nccl_memory_fixes,
    ),
    Symptom(
        id="nccl-memory",
        notice="dead",
        patterns=(r"NCCL WARN Cuda failure (?:2 )?'out of memory'", r"NCCL WARN Failed to CUDA calloc"),
        versions="any",
        explain=_NCCL_MEMORY,
        fixes=_nccl_memory_fixes,
    ),
)
