"""May int8 activations (VLLM_MARLIN_INPUT_DTYPE=int8, W4A8) be used? Only on dense AutoRound W4 weights.

Source: vLLM's Marlin call sites. Everything but symmetric 4-bit integer weights is refused, ignored or corrupted.
"""

from __future__ import annotations

from cockpit.catalog.slug import Weights
from cockpit.checkpoint.types import Checkpoint, Quantization, WeightScheme
from cockpit.rules.context import Context
from cockpit.rules.finding import OFFERED, ToggleState
from cockpit.rules.overlays import AUTOROUND_INT8, overlay_state

SWITCH = "VLLM_MARLIN_INPUT_DTYPE"
_GROUPS = (32, 64, 128)
_EIGHT_BIT = "the weights are 8-bit already: vLLM refuses 8-bit weights with 8-bit activations on Marlin"
_MACHETE = "MacheteLinearKernel"
_KEEP_OFF = "Leave int8 off; a dense AutoRound W4 slug can use it."


def _blocked(reason: str, fix: str = _KEEP_OFF) -> ToggleState:
    return ToggleState(state="blocked", reason=reason, fix=fix)


def _auto_round(weights: Weights) -> ToggleState:
    if weights.moe:
        return _blocked(
            "mixture of experts: the experts take another path through vLLM, which would mix two weight layouts "
            "and corrupt the output"
        )
    widths = _widths(weights)
    if widths == {8}:
        return _blocked(_EIGHT_BIT)
    if not widths:
        return _blocked(
            "nothing says how wide its weights are",
            "Write `bits: 4` under weights if all of them are 4-bit.",
        )
    if widths != {4}:
        return _blocked(_other_widths(widths))
    if weights.symmetric is False:
        return _blocked("asymmetric weights: one layer with zero points is enough to corrupt the output")
    if weights.symmetric is None:
        return _blocked(
            "nothing says that its weights are symmetric, and asymmetric ones would corrupt the output",
            "Write `symmetric: true` under weights if the checkpoint's config.json says so.",
        )
    if weights.group_size is not None and weights.group_size not in _GROUPS:
        return _blocked(_group_reason([weights.group_size]))
    return OFFERED


def _group_reason(sizes: list[int]) -> str:
    text = ", ".join(map(str, sizes))
    return f"group size {text}: Marlin takes int8 activations with 32, 64 or 128 only"


def _packed_integers(weights: Weights, name: str) -> ToggleState:
    widths = _widths(weights)
    if widths == {4}:
        return _blocked(f"{name} W4 is not an AutoRound checkpoint: not validated for int8 activations")
    if widths == {8}:
        return _blocked(_EIGHT_BIT)
    return _blocked(_other_widths(widths))


def _widths(weights: Weights) -> set[int]:
    """Every declared width of the linear layers; empty when the slug names none."""
    return set(weights.widths) | ({weights.bits} if weights.bits else set())


def _other_widths(widths: set[int]) -> str:
    """Why a checkpoint that is not all 4-bit or all 8-bit cannot use the switch."""
    odd = sorted(widths - {4, 8})
    reasons = []
    if odd:
        reasons.append(
            f"{', '.join(map(str, odd))}-bit weights run on the Humming kernel, which does not read the switch"
        )
    if 8 in widths:
        reasons.append("the 8-bit layers refuse it")
    return ", and ".join(reasons) or "nothing says how wide its weights are"


def weights_state(weights: Weights) -> ToggleState:
    """What the declared checkpoint alone allows."""
    match weights.format:
        case "auto-round":
            return _auto_round(weights)
        case "compressed-tensors":
            return _packed_integers(weights, "compressed-tensors")
        case "gptq":
            return _packed_integers(weights, "GPTQ")
        case "awq":
            return _blocked("AWQ is asymmetric 4-bit: int8 activations need symmetric weights")
        case "fp8":
            return _blocked("FP8 weights are 8-bit already: vLLM says that Marlin W8A8 is not supported")
        case "nvfp4" | "mxfp4":
            return _blocked(f"{weights.label} is a 4-bit float format: it cannot widen to int8 without loss")
        case "bf16" | "fp16":
            return _blocked(f"{weights.label}: nothing is quantized, so there is no Marlin layer to switch")


def checkpoint_state(checkpoint: Checkpoint) -> ToggleState:
    """What the checkpoint's own files allow; every linear layer must qualify, one that does not blocks it."""
    quantization = checkpoint.quantization
    match quantization.method:
        case "auto-round":
            return _auto_round_files(checkpoint)
        case "compressed-tensors" | "gptq":
            name = "compressed-tensors" if quantization.method == "compressed-tensors" else "GPTQ"
            kinds = {scheme.kind for scheme, _ in quantization.schemes}
            if "float" in kinds:
                return _blocked(_float_reason(min(quantization.widths, default=8)))
            weights = Weights(format=quantization.method, path=checkpoint.source, widths=sorted(quantization.widths))
            return _packed_integers(weights, name)
        case "none":
            name = {"bfloat16": "BF16", "float16": "FP16"}.get(checkpoint.dtype, checkpoint.dtype)
            return _blocked(f"{name}: nothing is quantized, so there is no Marlin layer to switch")
        case "awq":
            return _blocked("AWQ is asymmetric 4-bit: int8 activations need symmetric weights")
        case "fp8":
            return _blocked(_float_reason(8))
        case "nvfp4" | "mxfp4":
            return _blocked(_float_reason(4))
        case _:
            method = quantization.declared_method or quantization.method
            return _blocked(f"{method} weights are not read by the Marlin kernel that has the switch")


def _float_reason(bits: int) -> str:
    if bits > 4:
        return "FP8 weights are 8-bit already: vLLM says that Marlin W8A8 is not supported"
    return "the weights are a 4-bit float format: it cannot widen to int8 without loss"


def _auto_round_files(checkpoint: Checkpoint) -> ToggleState:
    quantization = checkpoint.quantization
    schemes = _kernel_schemes(quantization)
    floats = [scheme.bits for scheme in schemes if scheme.kind == "float"]
    if floats:
        return _blocked(_float_reason(min(floats)))
    if quantization.mismatched_modules:
        return _blocked(
            f"{quantization.mismatched_modules} layers are stored otherwise than config.json says",
            "Take the checkpoint from its source again.",
        )
    groups = {scheme.group_size for scheme in schemes}
    facts = Weights(
        format="auto-round",
        path=checkpoint.source,
        moe=checkpoint.moe,
        widths=sorted({scheme.bits for scheme in schemes} | _packed_embedding(quantization)),
        # One layer that is asymmetric, or does not say, decides for all.
        symmetric=_all_symmetric([scheme.symmetric for scheme in schemes]),
    )
    state = _auto_round(facts)
    if state.state == "blocked":
        return state
    if odd := sorted(size for size in groups if size is not None and size not in _GROUPS):
        return _blocked(_group_reason(odd))
    if None in groups:
        return _blocked("nothing says how many of its weights share a scale")
    if any(scheme.activation_bits is not None for scheme in schemes):
        return _blocked("the checkpoint quantizes its activations by itself")
    return OFFERED


def _kernel_schemes(quantization: Quantization) -> list[WeightScheme]:
    """Every scheme that meets the kernel: a quantized lm_head runs through the same one as the layers."""
    head = [] if quantization.lm_head is None else [quantization.lm_head]
    return [*(scheme for scheme, _ in quantization.schemes), *head]


def _packed_embedding(quantization: Quantization) -> set[int]:
    """Width of a quantized embed_tokens: tied, it is the lm_head as well."""
    bits = quantization.embed_tokens_bits
    return set() if bits is None or bits >= 16 else {bits}


def _all_symmetric(said: list[bool | None]) -> bool | None:
    if False in said:
        return False
    return None if None in said or not said else True


def _without_machete(ctx: Context) -> bool:
    """Whether the slug takes Machete away from vLLM, which leaves Marlin."""
    return _MACHETE in ctx.slug.env.get("VLLM_DISABLED_KERNELS", "").split(",")


def _rig_state(ctx: Context) -> ToggleState:
    for major, minor in ctx.capabilities:
        if (major, minor) < (7, 5):
            return ToggleState(
                state="blocked",
                reason=f"compute capability {major}.{minor} has no int8 tensor cores",
                fix="Choose GPUs of capability 7.5 or newer with the gpus toggle.",
                level="rig",
            )
        if (major, minor) == (9, 0) and not _without_machete(ctx):
            return ToggleState(
                state="blocked",
                reason="on Hopper vLLM picks the Machete kernel, which ignores the switch and is faster than Marlin "
                "with it",
                fix="Leave int8 off on this GPU; for a trial on Marlin write VLLM_DISABLED_KERNELS: "
                f"{_MACHETE} under the slug's env.",
                level="rig",
            )
    return OFFERED


def _engine_state(ctx: Context) -> ToggleState:
    """Stock vLLM drops the switch; where it does, the overlay must fit it."""
    engine, overlay = ctx.engine, overlay_state(ctx, AUTOROUND_INT8)
    if engine is None or (overlay is None and engine.autoround_int8 is not False):
        return OFFERED
    if overlay is not None and overlay.state != "unsupported":
        return OFFERED
    reason = f"vLLM {engine.version} drops the switch on AutoRound weights (vllm#48904)"
    if engine.autoround_int8:
        reason = f"vLLM {engine.version} may read the negative scales of AutoRound weights wrongly (vllm#48905)"
    return ToggleState(
        state="blocked",
        reason=reason
        if overlay is None
        else f"{reason}, and the overlay that cures it does not fit: {overlay.reason}",
        fix="Use a vLLM that carries the fix, or one that the overlay fits.",
        level="rig",
    )


def int8_state(ctx: Context) -> ToggleState:
    """State of the int8 toggle: the checkpoint decides first, then the build, then the GPUs, then the engine."""
    state = weights_state(ctx.slug.weights) if ctx.checkpoint is None else checkpoint_state(ctx.checkpoint)
    if state.state == "blocked":
        return state
    if ctx.slug.platform == "cpu":
        return _blocked(
            "the CPU build has no Marlin kernel, and nothing else reads the switch", "Leave int8 off here."
        )
    state = _rig_state(ctx)
    return _engine_state(ctx) if state.state == "offered" else state
