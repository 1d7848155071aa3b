"""Several GPUs: NCCL, shared memory, workers that hang."""

from __future__ import annotations

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, do, joined, no_draft, reason, say, without

_NO_P2P = Fix(text="Do without direct transfers between the GPUs.", env={"NCCL_P2P_DISABLE": "1"})

_TIMEOUT = say("A worker did not answer in time: it hangs in a transfer between GPUs, or another worker died.")
_TIMEOUT_FIXES = do(_NO_P2P, added("disable_custom_all_reduce"), "Look at `dmesg` for Xid lines.")
_READY_SECONDS = 600
"""VLLM_ENGINE_READY_TIMEOUT_S of vLLM 0.20 to 0.33 (envs.py)."""


def _longer(seen: Evidence) -> list[Fix]:
    waited = int(seen.number("seconds") or _READY_SECONDS)
    longer = str(waited * 3)
    wait = Fix(text=f"Wait up to {longer} s for it.", env={"VLLM_ENGINE_READY_TIMEOUT_S": longer})
    look = Fix(text="Look at the last line before the pause: after `vLLM is using nccl` it hangs between the GPUs.")
    left = Fix(text="The engine may still run: `cockpit doctor` finds VLLM::EngineCore processes that outlived it.")
    return [wait, look, left]


_CONTEXT_FIXES = do(
    without("decode_context_parallel_size"),
    without("prefill_context_parallel_size"),
    without("attention_backend", " and let vLLM choose"),
    "Or use a newer vLLM, or another --attention-backend.",
)

_RAY_FIXES = do(
    "Look at `ray status`: each node must have its GPUs free and its own address in VLLM_HOST_IP.",
    "On one machine leave Ray out: --distributed-executor-backend mp.",
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="port-in-use-internal",
        patterns=(
            r"server socket has failed to listen on any local network address",
            r"DistNetworkError[^\n]{0,200}EADDRINUSE",
            r"zmq\.error\.ZMQError: Address already in use",
            r"TCPStore[^\n]{0,200}(?:EADDRINUSE|address already in use)",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "Two servers raced for an internal port, by which a server's own processes meet; it is not the "
            "HTTP port, "
            "and --port does not change it."
        ),
        fixes=do("Start again; servers that start at once need a VLLM_PORT or --master-port each."),
    ),
    Symptom(
        id="visible-devices",
        patterns=(r"invalid literal for int\(\) with base 10: '(?P<device>(?:MIG|GPU)-[\w/-]+)",),
        versions="0.4 to 0.25",
        explain=say(
            "CUDA_VISIBLE_DEVICES names {device}, and this vLLM takes numbers only.",
            "CUDA_VISIBLE_DEVICES names a GPU by its UUID, and this vLLM takes numbers only.",
        ),
        fixes=do(
            "Give the GPU's number (`nvidia-smi -L` lists both); a container gets one GPU or MIG slice by --gpus "
            "device=UUID, and needs no CUDA_VISIBLE_DEVICES then.",
            "Or upgrade vLLM.",
        ),
    ),
    Symptom(
        id="pipeline-parallel",
        patterns=(r"Pipeline parallelism is (?:not|only) supported",),
        versions="0.5 to 0.33",
        explain=lambda seen: (
            "This vLLM cannot split the model over a pipeline (--pipeline-parallel-size)"
            + (": most likely it is the draft that it cannot split." if no_draft(seen) else ".")
        ),
        fixes=joined(
            no_draft,
            do(
                without("pipeline_parallel_size", ", and split it by tensor parallel"),
                "Or upgrade vLLM: newer releases split more models.",
            ),
        ),
    ),
    Symptom(
        id="context-parallel",
        patterns=(
            r"(?:DCP|PCP|\(DCP\)) requires ",
            r"enable decode context parallel",
            r"[Dd]ecode[ -]context[ -]parallel[^\n]{0,80}(?:requires|exceeds|must|not support)",
            r"divisible by (?:dcp_size|`--decode-context-parallel-size)",
            r"does not support (?:PCP|decode context parallel)",
        ),
        versions="0.11 to 0.33",
        explain=lambda seen: (
            f"The KV cache cannot be split over the GPUs as the command asks: {reason(seen).rstrip('. ')}."
        ),
        fixes=_CONTEXT_FIXES,
    ),
    Symptom(
        id="context-parallel",
        patterns=(r"^(?:AssertionError|RuntimeError|ValueError|IndexError)\b",),
        frames=r":_?context_parallel_\w+$",
        versions="0.11 to 0.33",
        explain=say("The part of the attention that splits the KV cache over the GPUs failed (context parallel)."),
        fixes=_CONTEXT_FIXES,
    ),
    Symptom(
        id="dp-address",
        patterns=(
            r"ZMQError: (?:Cannot assign requested address|No such device|Invalid argument)"
            r" \(addr='tcp://(?P<address>[^']*)'\)",
        ),
        versions="0.8 to 0.33",
        explain=say(
            "The server's processes shall meet at {address}, which is no address of this machine.",
            "The server's processes shall meet at an address that is not this machine's.",
        ),
        fixes=do(
            "Give --data-parallel-address as the IP address of the machine that starts first, not as a name.",
            Fix(text="On one machine let them meet on the loopback interface.", env={"VLLM_HOST_IP": "127.0.0.1"}),
        ),
    ),
    Symptom(
        id="dp-coordinator",
        patterns=(r"DP Coordinator process failed",),
        versions="0.17 to 0.33",
        explain=say(
            "The process that coordinates the replicas (--data-parallel-size) did not start in time: the machine or "
            "its disk is slow, or it died."
        ),
        fixes=do(
            "Look for an exception of the DP Coordinator above; without one start again: its files are cached now.",
            without("data_parallel_size", ": one replica needs no coordinator"),
        ),
    ),
    Symptom(
        id="ray-resources",
        patterns=(r"Created (?P<made>\d+) DP placement groups, expected (?P<wanted>\d+)",),
        versions="0.10 to 0.33",
        explain=say(
            "Ray's nodes have room for {made} replicas, and the command says {wanted}.",
            "Ray's nodes have room for another number of replicas than the command says.",
        ),
        fixes=do(
            "Give --data-parallel-size-local, or as many nodes as the replicas need.",
            Fix(text="Or let Ray fill one node first.", env={"VLLM_RAY_DP_PACK_STRATEGY": "fill"}),
        ),
    ),
    Symptom(
        id="ray-resources",
        patterns=(
            r"exceeds the total number of available \w+ in the placement group",
            r"Not enough resources to allocate \d+ (?:\w+ )?placement groups?",
            r"No available node types can fulfill resource request",
            r"Ray does not allocate any (?:GPUs|\w+) on the driver node",
            r"Current node has no GPU available",
            r"Cannot provide a placement group",
        ),
        versions="0.2 to 0.33",
        explain=say("Ray has no node, or not enough of them, with the GPUs that the server asks for."),
        fixes=_RAY_FIXES,
    ),
    Symptom(
        id="ray-resources",
        notice="hang",
        patterns=(r"Waiting for creating a placement group of specs for (?P<seconds>\d{2,}) seconds",),
        versions="0.4 to 0.33",
        explain=say(
            "The server waits for Ray to give it GPUs: its nodes have too few that are free, or other addresses than "
            "the server asks for."
        ),
        fixes=_RAY_FIXES,
    ),
    Symptom(
        id="nccl-duplicate-gpu",
        patterns=(r"Duplicate GPU detected",),
        versions="any",
        explain=say(
            "Two ranks of the server got the same GPU: there are fewer cards visible than ranks, or MIG slices."
        ),
        fixes=do(
            "Name as many GPUs as ranks in CUDA_VISIBLE_DEVICES, each once, or lower --tensor-parallel-size.",
        ),
    ),
    Symptom(
        id="network-interface",
        patterns=(
            r"Unable to find address for: (?P<name>\S+)",
            r"socket(?:StartConnect|PollConnect|ProgressOpt|Finalize\w+)[^\n]{0,120}(?:failed|timed out|refused)",
            r"Gloo connectFullMesh failed",
            r"client socket has (?:timed out|failed)[^\n]{0,60}connect",
            r"gloo/transport/[^\n]{1,200}Connection (?:closed|reset|refused)",
            r"NCCL WARN Bootstrap ?: no socket interface found",
            r"Neither 127\.0\.0\.1 nor ::1 are bound",
        ),
        versions="any",
        explain=say(
            "The server's processes meet over the network interface {name}, which is not there.",
            "The server's processes could not reach each other over the network interface that was chosen.",
        ),
        fixes=do(
            Fix(
                text="On one machine let them meet on the loopback interface.",
                env={"VLLM_HOST_IP": "127.0.0.1", "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"},
            ),
            "With several machines name the interface that they share in both variables (`ip -br addr`).",
        ),
    ),
    Symptom(
        id="nccl-system",
        patterns=(
            r"unhandled system error",
            r"ncclSystemError",
        ),
        versions="any",
        explain=say(
            "NCCL could not get a socket or shared memory from the system; in a container /dev/shm is "
            "usually too small."
        ),
        fixes=do(
            "Start the container with --ipc=host or --shm-size=8g.",
            Fix(text="For NCCL's own reason start once with its log.", env={"NCCL_DEBUG": "INFO"}, aid=True),
        ),
    ),
    Symptom(
        id="nccl-p2p",
        patterns=(r"custom_all_reduce[^\n]{0,120}(?:error|failed|invalid)", r"custom_all_reduce\.cuh"),
        versions="any",
        explain=say(
            "vLLM's own all-reduce failed between the GPUs: they do not reach each other's memory as it needs."
        ),
        fixes=do(added("disable_custom_all_reduce"), _NO_P2P, "Update the driver; set iommu=pt on AMD boards."),
    ),
    Symptom(
        id="nccl-p2p",
        patterns=(
            r"ncclUnhandledCudaError",
            r"NCCL[^\n]{0,200}(?:invalid usage|unhandled cuda error|internal error|peer access)",
            r"peer access is not supported between these two devices",
        ),
        versions="any",
        explain=say("NCCL failed between the GPUs: direct transfers, the driver or the way the cards are connected."),
        fixes=do(_NO_P2P, added("disable_custom_all_reduce"), "Update the driver; set iommu=pt on AMD boards."),
    ),
    Symptom(
        id="ranks-missing",
        patterns=(
            r"Timed out after \d+ seconds waiting for clients\. (?P<came>\d+)/(?P<all>\d+) clients joined",
            r"Timed out after \d+ seconds waiting for clients",
        ),
        versions="any",
        explain=say(
            "Of {all} processes only {came} came together: the others died before, were not started, or cannot reach "
            "the first.",
            "Not all of the server's processes came together: the others died, were not started, or cannot reach "
            "the first.",
        ),
        fixes=do(
            "Look for the first exception of the other processes, on every machine.",
            "Over several machines each needs the same sizes, its own rank, and the first one's address and ports.",
        ),
    ),
    Symptom(
        id="nccl-timeout",
        patterns=(
            r"Watchdog caught collective operation timeout",
            r"ProcessGroupNCCL[^\n]{0,120}(?:timed? ?out|heartbeat)",
            r"(?:collective|all_?reduce|broadcast|barrier)[^\n]{0,60}timed out",
            r"RPC call to (?P<method>\w+) timed out",
            r"DistStoreError: wait timeout",
            r"TimeoutError: RPC",
            r"gloo/transport/[^\n]{1,200}Timed out",
        ),
        versions="any",
        explain=_TIMEOUT,
        fixes=_TIMEOUT_FIXES,
    ),
    Symptom(
        id="nccl-timeout",
        patterns=(r"^TimeoutError\b",),
        frames=r":(?:acquire_read|acquire_write|dequeue|_dequeue\w*|wait_for_\w*response)$",
        versions="0.8 to 0.33",
        explain=_TIMEOUT,
        fixes=_TIMEOUT_FIXES,
    ),
    Symptom(
        id="engine-timeout",
        patterns=(
            r"Timed out waiting for engine(?:s| core)[^\n]*?Waited (?P<seconds>\d+)s",
            r"Timed out waiting for engine(?:s| core)",
            r"Did not receive (?:response from|ready message from) (?:front-end|engine|core)",
        ),
        versions="0.9 to 0.33",
        explain=say(
            "The engine was not ready after {seconds} s, which is how long the API server waits: it loads or "
            "compiles slowly, or it hangs.",
            "The engine was not ready when the API server stopped waiting: it loads or compiles slowly, or it hangs.",
        ),
        fixes=_longer,
    ),
    Symptom(
        id="nccl",
        patterns=(
            r"NCCL error",
            r"DistBackendError(?!')",
            r"ncclRemoteError",
            r"NCCL failure",
            r"libnccl\.so\S* (?:not found|: cannot)",
        ),
        versions="any",
        explain=say("The GPUs of the server could not talk to each other (NCCL)."),
        fixes=do(
            Fix(text="For NCCL's own reason start once with its log.", env={"NCCL_DEBUG": "INFO"}, aid=True),
            _NO_P2P,
        ),
    ),
)
