"""Decoding at its old speed with int8 activations on: a layer takes a few tokens with their 16-bit activations.

Marlin runs at most eight tokens through a kernel of their own, but only with weights packed for 16-bit activations.
With int8 a single stream would pay for sixteen tokens and for their quantization. Here each layer with int8 becomes
one operator that takes Marlin for many tokens and ``cockpit_int8_kernel`` for few. After the load both are asked for
the same product, and both are timed on the layers themselves: Marlin keeps whatever it does faster, and everything
where the products differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

ROWS = (1, 2, 4, 8)
"""Tokens at once that are timed; those between count as the next. The instruction has eight columns: no more."""
WAYS = ((1, 16), (1, 4), (2, 4), (2, 1))
"""Ways to run the kernel, each of which is timed: warps of a program, and programs that share the inputs of a tile.
On an H200 one of them is within a fiftieth of the best of twenty for every layer that was tried."""
Way = tuple[int, int]
"""One of the WAYS."""
_TIMED_LAYERS = 12
_REPEATS = 5
_NAMESPACE = "cockpit_int8"
_ARRIVED = "cockpit_int8_arrived"
_OPTIONAL = ("bias", "g_idx", "order", "workspace")


class Shape(NamedTuple):
    """What decides which kernel is faster: inputs, outputs, and groups of inputs that share a scale."""

    size_k: int
    size_n: int
    groups: int


class Weights(NamedTuple):
    """A layer as Marlin packed it for int8 activations, with zero points; what this vLLM has no use for is None.

    ``weight`` int32 [size_k / 16, 2 size_n], ``scale`` [groups, size_n], int16 seen as the activation type, ``zero``
    int32 [groups, size_n / 8], ``factor`` float32 [], ``bias`` [size_n] in the order of the scales. ``arrived`` is
    this overlay's: int32 zeros [size_n / 32], how many of the programs that share a tile are done.
    """

    weight: Any
    scale: Any
    zero: Any
    factor: Any
    arrived: Any
    bias: Any
    g_idx: Any
    order: Any
    workspace: Any


chosen: dict[tuple[Shape, int], Way] = {}
"""Which of the WAYS is taken in place of Marlin, by shape and tokens."""
layers: list[tuple[Shape, Any, Any]] = []
"""Shape, vLLM's kernel and layer of each one that is being loaded."""
_marlin: list[tuple[Callable[..., Any], frozenset[str]]] = []
"""vLLM's function and the names of its arguments, which differ by version."""


def enlist(kernel: Any, layer: Any) -> Shape | None:
    """Note a layer that was packed; its shape, or None when the kernel here cannot read it.

    It is neither padded nor in another order of inputs, and has groups of 32, 64 or 128 inputs and 64 outputs or
    a multiple.
    """
    size_k, size_n = kernel.config.partition_weight_shape
    packed = weights_of(kernel, layer, None)
    shape = Shape(size_k, size_n, packed.scale.shape[0])
    fits = (
        packed.weight.is_cuda
        and _has_instruction(packed.weight.device)
        and not getattr(kernel.config, "has_g_idx", False)
        and size_k in (32 * shape.groups, 64 * shape.groups, 128 * shape.groups)
        and size_n % 64 == 0
        and packed.scale.shape[1] == size_n
        and packed.scale.element_size() == 2
    )
    if not fits:
        return None
    _count(layer, packed.weight.device, size_n // 32)
    layers.append((shape, kernel, layer))
    return shape


def _has_instruction(device: Any) -> bool:
    """mma.m16n8k16 came with Ampere; elsewhere Triton would leave a whole program in the log for every shape."""
    import torch

    return bool(torch.cuda.get_device_capability(device) >= (8, 0))


def _count(layer: Any, device: Any, tiles: int) -> None:
    """Give the layer its counters; weights that are loaded anew keep theirs, as recorded graphs know where those are.

    As a buffer they are saved when vLLM sleeps and gives their memory away.
    """
    known = getattr(layer, _ARRIVED, None)
    if known is not None:
        known.zero_()
        return
    import torch

    layer.register_buffer(_ARRIVED, torch.zeros(tiles, dtype=torch.int32, device=device), persistent=False)


def weights_of(kernel: Any, layer: Any, bias: Any) -> Weights:
    """The tensors of a packed layer, in this vLLM and in those that still pass an order of inputs."""
    named = [getattr(kernel, name) for name in ("w_q_name", "w_s_name", "w_zp_name")]
    weight, scale, zero = (getattr(layer, name) for name in named)
    g_idx = getattr(layer, getattr(kernel, "w_gidx_name", None) or "", None)
    order = getattr(layer, "g_idx_sort_indices", None)
    arrived, workspace = getattr(layer, _ARRIVED, None), getattr(kernel, "workspace", None)
    return Weights(weight, scale, zero, layer.input_global_scale, arrived, bias, g_idx, order, workspace)


def run(x: Any, packed: Weights, shape: Shape, way: Way) -> Any:
    """The kernel of this overlay: activations [tokens, size_k] → [tokens, size_n], at most eight tokens."""
    import cockpit_int8_kernel

    return cockpit_int8_kernel.launch(x, packed, *shape, *way)


def marlin(x: Any, packed: Weights, shape: Shape) -> Any:
    """vLLM's own way: activations [tokens, size_k] → [tokens, size_n], through int8."""
    import torch
    from vllm.scalar_type import scalar_types

    given = {
        "input": x,
        "weight": packed.weight,
        "weight_scale": packed.scale,
        "weight_zp": packed.zero,
        "g_idx": packed.g_idx,
        "g_idx_sort_indices": packed.order,
        "workspace": packed.workspace,
        "wtype": scalar_types.uint4,
        "input_size_per_partition": shape.size_k,
        "output_size_per_partition": shape.size_n,
        "is_k_full": True,
        "input_global_scale": packed.factor,
        "bias": packed.bias,
        "input_dtype": torch.int8,
    }
    call, wanted = _marlin[0]
    return call(**{name: value for name, value in given.items() if name in wanted})


def define(apply_linear: Callable[..., Any]) -> None:
    """Define the operator; ``apply_linear`` is Marlin's function that takes zero points with int8 activations."""
    import torch

    _marlin[:] = [(apply_linear, frozenset(inspect.signature(apply_linear).parameters))]
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    optional = ", ".join(f"Tensor? {name}" for name in _OPTIONAL)
    # The counters are zero before and after a call: to a compiler, nothing is written. Two calls for one layer may
    # not overlap; vLLM runs all of a model's layers on one stream.
    library.define(
        f"linear(Tensor x, Tensor weight, Tensor scale, Tensor zero, Tensor factor, Tensor arrived, {optional}, "
        "int size_k, int size_n, int groups) -> Tensor"
    )
    library.impl("linear", _linear, "CUDA")
    library._register_fake("linear", _like)
    globals()["_library"] = library  # the operator lives as long as this


def _linear(x: Any, *given: Any) -> Any:
    packed, shape = Weights(*given[: -len(Shape._fields)]), Shape(*given[-len(Shape._fields) :])
    # The kernel reads 16-bit numbers of the scales' own type, from a multiple of 16 bytes on; Marlin whatever comes.
    fits = x.dtype == packed.scale.dtype and x.data_ptr() % 16 == 0
    way = chosen.get((shape, x.shape[0])) if fits else None
    return marlin(x, packed, shape) if way is None else run(x, packed, shape, way)


def _like(x: Any, *given: Any) -> Any:
    return x.new_empty((x.shape[0], Shape(*given[-len(Shape._fields) :]).size_n))


def apply(x: Any, packed: Weights, shape: Shape) -> Any:
    """The layer on activations of any shape [..., size_k]: what a compiled model calls. → [..., size_n]."""
    import torch

    rows = x.reshape(-1, shape.size_k).contiguous()
    out = getattr(torch.ops, _NAMESPACE).linear(rows, *packed, *shape)
    return out.reshape(*x.shape[:-1], shape.size_n)


def _whole(size: tuple[int, int], packed: Weights) -> Any:
    """Whole numbers from -127 to 127, as activations of the layer; the model's own random numbers are left alone."""
    import torch

    device = packed.weight.device
    dice = torch.Generator(device).manual_seed(0)
    return torch.randint(-127, 128, size, device=device, generator=dice).to(packed.scale.dtype)


def agrees(packed: Weights, shape: Shape) -> bool:
    """Whether both ways give the same product, of numbers that int8 activations hold exactly.

    Beside so large a product a bias would not be seen: where there is one, the same is asked of small numbers.
    """
    x = _whole((ROWS[-1], shape.size_k), packed)
    x[:, 0] = 127
    return all(_agree(x * size, packed, shape) for size in ((1.0,) if packed.bias is None else (1.0, 2.0**-12)))


def _agree(x: Any, packed: Weights, shape: Shape) -> bool:
    wanted = marlin(x, packed, shape).float()
    bound = 0.02 * wanted.abs().max()
    return all(bool((run(x, packed, shape, way).float() - wanted).abs().max() <= bound) for way in WAYS)


def seconds(call: Callable[[], None]) -> float:
    """The least time of a replayed CUDA graph of the call."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(_REPEATS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return float(min(times[1:]))


def choose(say: Callable[[str], None]) -> None:
    """Compare and time both ways on the layers that were loaded, and say what came of it.

    Whatever fails here (a card or a Triton that cannot compile the kernel) leaves those layers with Marlin.
    """
    by_shape: dict[Shape, list[Weights]] = {}
    for shape, kernel, layer in layers:
        by_shape.setdefault(shape, []).append(weights_of(kernel, layer, getattr(layer, "bias", None)))
    layers.clear()
    before = after = 0.0
    most = 0
    for shape, found in by_shape.items():
        timed = found[:_TIMED_LAYERS]
        for rows in range(1, ROWS[-1] + 1):
            chosen.pop((shape, rows), None)
        try:
            if not all(
                agrees(packed, shape) for packed in {packed.bias is None: packed for packed in found}.values()
            ):
                raise ArithmeticError("the two kernels disagree")
            races = [_race(timed, shape, rows) for rows in ROWS]
        except Exception as error:  # noqa: BLE001 - a server with Marlin alone is better than none
            why = " ".join(str(error).split())[:200] or type(error).__name__
            say(f"few tokens stay with Marlin in layers of {shape.size_k} x {shape.size_n}: {why}")
            continue
        for below, rows, (stock, best, way) in zip((0, *ROWS), ROWS, races, strict=False):
            if best < stock:
                chosen.update({(shape, count): way for count in range(below + 1, rows + 1)})
                most = max(most, rows)
        before += races[0][0] * len(found) / len(timed)
        after += min(races[0][:2]) * len(found) / len(timed)
    if most:
        say(
            f"up to {most} tokens at once keep 16-bit activations where that is faster: these layers take "
            f"{1e6 * after:.0f} µs for one token, {1e6 * before:.0f} with int8 ones"
        )


def _race(timed: Sequence[Weights], shape: Shape, rows: int) -> tuple[float, float, Way]:
    """Seconds that Marlin takes for the layers, the least that the kernel takes, and in which way."""
    x = _whole((rows, shape.size_k), timed[0])

    def stock() -> None:
        for packed in timed:
            marlin(x, packed, shape)

    def own(way: Way) -> Callable[[], None]:
        def call() -> None:
            for packed in timed:
                run(x, packed, shape, way)

        return call

    best, way = min((seconds(own(way)), way) for way in WAYS)
    return seconds(stock), best, way
