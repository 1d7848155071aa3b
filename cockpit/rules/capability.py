"""Is each chosen GPU new enough for the way the weights are quantized? The installed vLLM's own minimum decides."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.rules.context import Context
from cockpit.rules.finding import Finding

_NAMES = {
    "auto-round": "inc",
    "nvfp4": "modelopt_fp4",
    "awq": "awq_marlin",
    "gptq": "gptq_marlin",
}
"""The word for a format in vLLM, where it is another one than in a slug."""


def method_capability(ctx: Context) -> Iterator[Finding]:
    """vLLM refuses a quantization method below its minimum compute capability."""
    engine = ctx.engine
    method = ctx.slug.weights.format if ctx.checkpoint is None else ctx.checkpoint.quantization.method
    if engine is None or engine.min_capabilities is None or engine.platform != "cuda":
        return
    least = engine.min_capabilities.get(_NAMES.get(method, method))
    old = sorted(capability for capability in ctx.capabilities if capability[0] * 10 + capability[1] < (least or 0))
    if least is not None and old:
        yield Finding(
            rule="method-capability",
            severity="block",
            subject="weights",
            message=f"{method} weights need compute capability {least // 10}.{least % 10} in vLLM {engine.version}, "
            f"a chosen GPU has {old[0][0]}.{old[0][1]}",
            fix="Choose newer GPUs with the gpus toggle, or weights of another format.",
            level="rig",
        )


RULES = (method_capability,)
"""In the order in which their findings are shown."""
