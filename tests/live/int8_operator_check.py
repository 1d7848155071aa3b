"""Run under vLLM's Python: layers as one operator, compiled whole, with stand-ins for the two CUDA kernels.

Prints ``one operator`` when few tokens took the one and many the other.
"""

from types import SimpleNamespace

import cockpit_int8_decode as decode
import torch

SHAPE = decode.Shape(256, 64, 2)


def marlin(input: torch.Tensor, output_size_per_partition: int, input_global_scale: torch.Tensor) -> torch.Tensor:
    """As Marlin's function, of a version with fewer arguments."""
    return input.new_full((input.shape[0], output_size_per_partition), float(input_global_scale))


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = SimpleNamespace(w_q_name="q", w_s_name="s", w_zp_name="z", w_gidx_name="g_idx", workspace=None)
        for name, size, kind in (
            ("q", (16, 128), torch.int32),
            ("s", (2, 64), torch.float32),
            ("z", (2, 8), torch.int32),
        ):
            setattr(self, name, torch.nn.Parameter(torch.zeros(size, dtype=kind), requires_grad=False))
        self.g_idx = self.g_idx_sort_indices = torch.zeros(0)
        decode._count(self, "cpu", 2)
        self.input_global_scale = torch.nn.Parameter(torch.tensor(3.0), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return decode.apply(x, decode.weights_of(self.kernel, self, None), SHAPE) * 2


decode.define(marlin)
decode._library.impl("linear", decode._linear, "CPU")
decode.run = lambda x, packed, shape, way: x.new_full((x.shape[0], shape.size_n), float(way[0] * way[1]))
decode.chosen[SHAPE, 2] = (4, 2)
layer = torch.compile(Layer(), fullgraph=True, dynamic=True)
few, many = layer(torch.randn(2, 256)), layer(torch.randn(2, 3, 256))
assert few.shape == (2, 64) and bool((few == 16).all())
assert many.shape == (2, 3, 64) and bool((many == 6).all())
kept = layer._orig_mod.cockpit_int8_arrived.add_(1)
decode._count(layer._orig_mod, "cpu", 2)
assert not kept.any() and "cockpit_int8_arrived" in dict(layer._orig_mod.named_buffers())
assert "cockpit_int8_arrived" not in layer._orig_mod.state_dict()
print("one operator")
