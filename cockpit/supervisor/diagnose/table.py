"""THE table of symptoms: what is specific comes before what is general, the first that matches counts."""

from __future__ import annotations

from cockpit.supervisor.diagnose import (
    attention,
    container,
    cpu,
    cuda,
    flags,
    hub,
    installation,
    kv,
    lora,
    memory,
    model,
    notices,
    overlays,
    parallel,
    process,
    quantization,
    speculative,
    tensors,
    tokenizer,
    toolkit,
)
from cockpit.supervisor.diagnose.types import Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    *overlays.SYMPTOMS,
    *container.SYMPTOMS,
    *kv.SYMPTOMS,
    *memory.SYMPTOMS,
    *installation.SYMPTOMS,
    *hub.SYMPTOMS,
    *parallel.SYMPTOMS,
    *speculative.SYMPTOMS,
    *lora.SYMPTOMS,
    *tensors.SYMPTOMS,
    *cpu.SYMPTOMS,
    *attention.SYMPTOMS,
    *quantization.SYMPTOMS,
    *tokenizer.SYMPTOMS,
    *model.SYMPTOMS,
    *flags.SYMPTOMS,
    *toolkit.SYMPTOMS,
    *cuda.SYMPTOMS,
    *process.SYMPTOMS,
    *flags.REFUSED,
    *notices.SYMPTOMS,
)
