"""Which kernel few tokens take: what the int8 overlay makes of its own measurements. The kernels run elsewhere."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cockpit.launch.overlay import FOLDER

SMALL, LARGE = (256, 64, 2), (512, 128, 4)
ONE, FOUR = (8, 1), (1, 4)
"""Two ways to run the kernel: one program a tile, and four."""


@pytest.fixture
def decode(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER / "autoround_int8"))
    yield importlib.import_module("cockpit_int8_decode")
    sys.modules.pop("cockpit_int8_decode", None)


def loaded(decode: Any, *shapes: tuple[int, int, int]) -> None:
    """As if layers of these shapes had been packed."""
    kernel = SimpleNamespace(w_q_name="q", w_s_name="s", w_zp_name="z", w_gidx_name=None)
    for shape in shapes:
        layer = SimpleNamespace(q="q", s="s", z="z", input_global_scale="f", cockpit_int8_arrived="a")
        decode.layers.append((decode.Shape(*shape), kernel, layer))


def chosen(decode: Any, shape: tuple[int, int, int]) -> dict[int, tuple[int, int]]:
    return {rows: way for (known, rows), way in decode.chosen.items() if known == shape}


def raced(
    monkeypatch: pytest.MonkeyPatch, decode: Any, times: dict[int, tuple[float, float, tuple[int, int]]]
) -> None:
    monkeypatch.setattr(decode, "agrees", lambda packed, shape: True)
    monkeypatch.setattr(decode, "_race", lambda timed, shape, rows: times[rows])


def test_tokens_between_two_that_were_timed_go_with_the_larger(decode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raced(
        monkeypatch,
        decode,
        {1: (9e-6, 7e-6, FOUR), 2: (9e-6, 8e-6, ONE), 4: (9e-6, 9e-6, ONE), 8: (9e-6, 8e-6, FOUR)},
    )
    loaded(decode, *[SMALL] * 24)  # twelve of them are timed
    said: list[str] = []
    decode.choose(said.append)
    assert chosen(decode, SMALL) == {1: FOUR, 2: ONE, 5: FOUR, 6: FOUR, 7: FOUR, 8: FOUR}
    assert said == [
        "up to 8 tokens at once keep 16-bit activations where that is faster: these layers take 14 µs for one token, "
        "18 with int8 ones"
    ]
    assert not decode.layers


def test_marlin_keeps_what_it_does_faster_and_nothing_is_said(decode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raced(monkeypatch, decode, dict.fromkeys(decode.ROWS, (7e-6, 9e-6, ONE)))
    loaded(decode, SMALL)
    said: list[str] = []
    decode.choose(said.append)
    assert not decode.chosen
    assert not said


def test_kernels_that_disagree_or_fail_leave_those_layers_with_marlin(
    decode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def agrees(packed: Any, shape: Any) -> bool:
        if shape == SMALL:
            raise RuntimeError("Failed to find C compiler.\nPlease specify via CC")
        return False

    monkeypatch.setattr(decode, "agrees", agrees)
    decode.chosen[decode.Shape(*SMALL), 1] = ONE  # of a load before
    loaded(decode, SMALL, LARGE)
    said: list[str] = []
    decode.choose(said.append)
    assert not decode.chosen
    assert said == [
        "few tokens stay with Marlin in layers of 256 x 64: Failed to find C compiler. Please specify via CC",
        "few tokens stay with Marlin in layers of 512 x 128: the two kernels disagree",
    ]


def test_a_draft_without_such_layers_says_nothing(decode: Any) -> None:
    said: list[str] = []
    decode.choose(said.append)
    assert not said


def test_activations_of_another_type_than_the_scales_or_between_sixteen_bytes_go_to_marlin(
    decode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "run", lambda x, packed, shape, way: way)
    monkeypatch.setattr(decode, "marlin", lambda x, packed, shape: "marlin")
    shape = decode.Shape(*SMALL)
    decode.chosen[shape, 1] = FOUR
    weights = decode.Weights("q", SimpleNamespace(dtype="bfloat16"), *[None] * 7)
    taken = [
        decode._linear(SimpleNamespace(dtype=kind, shape=(1, 256), data_ptr=lambda at=at: at), *weights, *shape)
        for kind, at in (("bfloat16", 4096), ("float32", 4096), ("bfloat16", 4100))
    ]
    assert taken == [FOUR, "marlin", "marlin"]


@pytest.mark.parametrize(
    ("size_k", "size_n", "scale", "given", "fits"),
    [
        (256, 64, (2, 64), {}, True),
        (256, 64, (8, 64), {}, True),
        (256, 64, (1, 64), {}, False),  # one group of all inputs
        (256, 96, (2, 96), {}, False),  # half of 64 outputs is another layer's
        (250, 64, (2, 64), {}, False),
        (256, 64, (2, 128), {}, False),  # padded
        (256, 64, (2, 64), {"has_g_idx": True}, False),
        (256, 64, (2, 64), {"has_g_idx": False}, True),
    ],
)
def test_only_layers_that_the_kernel_can_read_are_noted(
    decode: Any,
    monkeypatch: pytest.MonkeyPatch,
    size_k: int,
    size_n: int,
    scale: tuple[int, int],
    given: dict[str, bool],
    fits: bool,
) -> None:
    config = SimpleNamespace(partition_weight_shape=(size_k, size_n), **given)
    kernel = SimpleNamespace(w_q_name="q", w_s_name="s", w_zp_name="z", w_gidx_name=None, config=config)
    layer = SimpleNamespace(
        q=SimpleNamespace(is_cuda=True, device="cuda"),
        cockpit_int8_arrived=SimpleNamespace(zero_=lambda: "zeros"),
        s=SimpleNamespace(shape=scale, element_size=lambda: 2),
        z="z",
        input_global_scale="f",
    )
    monkeypatch.setattr(decode, "_has_instruction", lambda device: device == "cuda")
    assert decode.enlist(kernel, layer) == (decode.Shape(size_k, size_n, scale[0]) if fits else None)
    assert len(decode.layers) == fits


def test_layers_with_a_bias_and_without_one_are_both_compared(decode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    raced(monkeypatch, decode, dict.fromkeys(decode.ROWS, (9e-6, 7e-6, ONE)))
    monkeypatch.setattr(decode, "agrees", lambda packed, shape: packed.bias is None)
    loaded(decode, SMALL, SMALL)
    decode.layers[1][2].bias = "b"
    decode.choose(lambda text: None)
    assert not decode.chosen
