"""Environment that a multi-GPU rig of consumer cards needs, and data-centre GPUs do not."""

from __future__ import annotations

from cockpit.launch.draft import Draft
from cockpit.rig.types import Rig

_CONSUMER = ("GeForce", "RTX", "TITAN", "Quadro")
"""Parts of the names of cards that cannot reach each other's memory with NVIDIA's stock driver."""


def consumer_cards(rig: Rig) -> bool:
    """Whether the rig is one of consumer or workstation cards; an unknown rig counts as one."""
    return not rig.gpus or any(mark in gpu.name for gpu in rig.gpus for mark in _CONSUMER)


def apply_rig_env(draft: Draft, rig: Rig, tensor_parallel: int, caller: dict[str, str]) -> None:
    """Add what vLLM needs on RTX cards; what the slug or the caller has set already stays.

    NCCL's peer-to-peer and vLLM's own all-reduce are left out where cards cannot reach each other directly, which
    is so for GeForce cards with NVIDIA's stock driver. Expandable segments kill the boot on WSL2.
    """
    draft.env_default("VLLM_WORKER_MULTIPROC_METHOD", "spawn", caller)
    draft.env_default("OMP_NUM_THREADS", "1", caller)
    if not rig.wsl:
        draft.env_default("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", caller)
    if tensor_parallel > 1 and consumer_cards(rig):
        draft.env_default("NCCL_CUMEM_ENABLE", "0", caller)
        draft.env_default("NCCL_P2P_DISABLE", "1", caller)
        draft.flag_default("disable-custom-all-reduce")
