"""int8 activations on AutoRound W4 layers (vllm#48904, vllm#48905), as a vLLM plugin.

Stock vLLM never hands VLLM_MARLIN_INPUT_DTYPE to the linear layers of an AutoRound checkpoint, and its int8 kernel
reads negative group scales as unsigned. This hands the dtype on, folds the signs away before Marlin packs a layer,
and says after the load what it did, one line a rank.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

import cockpit_overlay as overlay

ID = "autoround-int8"
SWITCH = "VLLM_MARLIN_INPUT_DTYPE"
FOLD = "COCKPIT_INT8_FOLD"
"""``exact`` (default) or ``clamp``: whether Marlin gets zero points, or the codes that do not fit are clamped."""
DECODE = "COCKPIT_INT8_DECODE"
"""``own`` (default) or ``marlin``: whether few tokens may keep their 16-bit activations where that is faster."""
HERE = Path(__file__).parent
_MODELS = "vllm.model_executor"
_LAYERS = f"{_MODELS}.layers.quantization"
_MARK = "cockpit_int8"
_SHAPE = "cockpit_int8_shape"


class Counts:
    """What happened to the layers of the model that is being loaded."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin with another model."""
        self.switched = 0
        self.groups = 0
        self.folded = 0
        self.clamped = 0
        self.kept: dict[str, int] = {}
        """Layers left at 16 bits, by why."""

    def line(self) -> str:
        """The line that the cockpit reads as proof."""
        kept = "; ".join(f"{count} kept at 16 bits: {why}" for why, count in self.kept.items())
        text = (
            f"{self.switched} layers switched to int8 activations, {self.folded} of {self.groups} groups folded, "
            f"{self.clamped} codes clamped"
        )
        return f"{text}; {kept}" if kept else text


counts = Counts()


def register() -> None:
    """Called by vLLM in every process of its own; does nothing while the switch is not set to int8."""
    if os.environ.get(SWITCH) != "int8" or not overlay.admitted(HERE):
        return
    overlay.key_compile_cache(f"{ID} 2 {os.environ.get(FOLD, 'exact')} {os.environ.get(DECODE, 'own')}")
    overlay.when_imported(f"{_LAYERS}.inc.schemes.inc_wna16_linear", _patch_linear_scheme)
    overlay.when_imported(f"{_LAYERS}.inc.schemes.inc_wna16_scheme", _patch_experts)
    overlay.when_imported(f"{_LAYERS}.auto_gptq", _patch_gptq)
    overlay.when_imported(f"{_MODELS}.kernels.linear.mixed_precision.marlin", _patch_marlin)
    overlay.when_imported(f"{_MODELS}.model_loader.base_loader", _patch_loader)


def _patch_linear_scheme(module: Any) -> None:
    """Mark the layers whose dtype is to change; refuse the packings that have none to change to."""
    scheme = module.INCWNA16LinearScheme
    stock = scheme._build_gptq_method

    @functools.wraps(stock)
    def build(self: Any) -> Any:
        config = self.layer_config
        if not config.sym:
            overlay.refuse(ID, "a layer has asymmetric weights: int8 activations need symmetric ones in every layer")
        if config.bits != 4:
            overlay.refuse(
                ID, f"a layer has {config.bits}-bit weights: Marlin takes int8 activations with 4-bit ones only"
            )
        method = stock(self)
        setattr(method, _MARK, True)
        return method

    def refuse_awq(self: Any) -> Any:
        overlay.refuse(
            ID,
            "a layer is packed as AWQ, whose weights have zero points: int8 activations need symmetric weights "
            "in every layer",
        )

    scheme._build_gptq_method = build
    scheme._build_awq_method = refuse_awq


def _patch_experts(module: Any) -> None:
    """Experts read the switch by themselves at run time, from weights that were packed for 16 bits."""

    def refuse_experts(*_: Any, **__: Any) -> Any:
        overlay.refuse(
            ID,
            "the model is a mixture of experts: vLLM packs experts for 16-bit activations and would run them with "
            "int8 ones, which corrupts the output",
        )

    module.INCWna16Scheme.get_moe_method = refuse_experts


def _patch_gptq(module: Any) -> None:
    """Choose the kernel with int8 activations, and take them back from one that does not read them."""
    method = module.AutoGPTQLinearMethod
    stock = method.create_weights

    @functools.wraps(stock)
    def create(self: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
        if not getattr(self, _MARK, False):
            stock(self, layer, *args, **kwargs)
            return
        import torch

        stock(self, layer, *args, **kwargs)
        kernel = self.kernel
        why = _why_not(kernel, layer)
        if why is None:
            kernel.config.act_type = torch.int8
            setattr(kernel, _MARK, True)
        else:
            counts.kept[why] = counts.kept.get(why, 0) + 1

    method.create_weights = create


def _why_not(kernel: Any, layer: Any) -> str | None:
    """Why a layer stays at 16 bits, or None."""
    name = type(kernel).__name__
    if name != "MarlinLinearKernel":
        return f"{name} does not read the switch"
    if layer.scales.shape[0] < 2:
        return "Marlin needs more than one group of scales a layer"
    return None


def _patch_marlin(module: Any) -> None:
    """Fold a layer's signs before it is packed, and give the kernel the zero points that make the fold exact."""
    exact = os.environ.get(FOLD, "exact") != "clamp"
    kernel = module.MarlinLinearKernel
    stock = kernel.process_weights_after_loading

    @functools.wraps(stock)
    def process(self: Any, layer: Any) -> None:
        if not getattr(self, _MARK, False):
            stock(self, layer)
            return
        zero_points = _fold(layer, exact)
        self.config.weight_type = module.scalar_types.uint4b8  # again, where weights are loaded anew
        stock(self, layer)
        if zero_points is not None:
            _set_zero_points(module, self, layer, zero_points)
        counts.switched += 1

    kernel.process_weights_after_loading = process
    if exact:
        _allow_zero_points(module)
        if os.environ.get(DECODE, "own") != "marlin":
            _patch_decode(module)


def _fold(layer: Any, exact: bool) -> Any:
    """Replace the layer's codes and scales in place; its zero points, or None."""
    from cockpit_int8_fold import fold

    words, scales, zero_points, folded, clamped = fold(layer.qweight.data, layer.scales.data, exact)
    layer.qweight.data, layer.scales.data = words, scales
    counts.groups += scales.numel()
    counts.folded += folded
    counts.clamped += clamped
    return zero_points


def _set_zero_points(module: Any, kernel: Any, layer: Any, zero_points: Any) -> None:
    """Give a packed layer zero points in Marlin's order for 8-bit activations."""
    import torch

    config = kernel.config
    size_k, size_n = config.partition_weight_shape
    padded_n, padded_k = module.marlin_padded_nk(size_n, size_k, config.group_size)
    padded = module.marlin_pad_scales(zero_points, size_n, size_k, padded_n, padded_k, config.group_size)
    packed = module.marlin_zero_points(padded, size_k=padded.shape[0], size_n=padded_n, num_bits=4, is_a_8bit=True)
    setattr(layer, kernel.w_zp_name, torch.nn.Parameter(packed, requires_grad=False))
    config.weight_type = module.scalar_types.uint4


def _allow_zero_points(module: Any) -> None:
    """Marlin's int8 kernel is built for codes with zero points; only an assertion before it keeps them away."""
    import vllm.model_executor.layers.quantization.utils.marlin_utils as utils

    module.apply_gptq_marlin_linear = without_assertions(utils, "apply_gptq_marlin_linear")


def without_assertions(module: Any, name: str) -> Any:
    """A function of the module, compiled again without its assert statements."""
    import ast

    class Drop(ast.NodeTransformer):
        def visit_Assert(self, node: ast.Assert) -> ast.AST:
            return ast.copy_location(ast.Pass(), node)

    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    node = overlay.find(tree, name)
    assert isinstance(node, ast.FunctionDef)
    code = ast.fix_missing_locations(ast.Module(body=[Drop().visit(node)], type_ignores=[]))
    names: dict[str, Any] = {}
    exec(compile(code, module.__file__, "exec"), module.__dict__, names)
    return names[name]


def _patch_decode(module: Any) -> None:
    """Make every switched layer one operator, which may choose another kernel for few tokens."""
    import cockpit_int8_decode as decode

    kernel = module.MarlinLinearKernel
    packed, stock = kernel.process_weights_after_loading, kernel.apply_weights
    decode.define(module.apply_gptq_marlin_linear)

    @functools.wraps(packed)
    def process(self: Any, layer: Any) -> None:
        packed(self, layer)
        setattr(layer, _SHAPE, decode.enlist(self, layer) if getattr(self, _MARK, False) else None)

    @functools.wraps(stock)
    def apply(self: Any, layer: Any, x: Any, bias: Any = None) -> Any:
        shape = getattr(layer, _SHAPE, None)
        if shape is None:
            return stock(self, layer, x, bias)
        return decode.apply(x, decode.weights_of(self, layer, bias), shape)

    kernel.process_weights_after_loading, kernel.apply_weights = process, apply


def _patch_loader(module: Any) -> None:
    """Say after every load what was switched; a draft model is a load of its own."""
    loader = module.BaseModelLoader
    stock = loader.load_model

    @functools.wraps(stock)
    def load_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts.clear()
        model = stock(self, *args, **kwargs)
        overlay.say(f"{ID} rank {_rank()}", counts.line())
        _choose_kernels()
        return model

    loader.load_model = load_model


def _choose_kernels() -> None:
    """Time the layers' two ways for few tokens; only where the module that knows them was needed."""
    decode = sys.modules.get("cockpit_int8_decode")
    if decode is not None:
        decode.choose(lambda text: overlay.say(f"{ID} rank {_rank()}", text))


def _rank() -> int:
    from vllm.distributed import get_world_group

    return int(get_world_group().rank)
