"""Headers that lie, and the files that true headers describe."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import config, header_of, rebuild, write_config, write_raw, write_tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.safetensors import MAX_HEADER_BYTES, Tensor, read_folder, read_header
from cockpit.errors import CockpitError

GOOD = {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}


def refused(file: Path) -> CockpitError:
    with pytest.raises(CockpitError) as caught:
        read_header(file)
    assert caught.value.fix
    assert str(file) in caught.value.title
    return caught.value


def entry(**changes: Any) -> bytes:
    return json.dumps({"a": {k: v for k, v in (GOOD | changes).items() if v is not None}}).encode()


def test_a_true_header_is_read(tmp_path: Path) -> None:
    file = write_tensors(tmp_path / "f", {"a.weight": ("BF16", [2, 4]), "b": ("I32", []), "c": ("F32", [0, 3])})
    assert read_header(file) == {
        "a.weight": Tensor(dtype="BF16", shape=(2, 4), size=16),
        "b": Tensor(dtype="I32", shape=(), size=4),
        "c": Tensor(dtype="F32", shape=(0, 3), size=0),
    }


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 50_000, "not JSON"),
        (b"9" * 10_000, "not JSON"),
        (b'{"a": 1}', "no description"),
        (b'{"a": {}}', "unknown type"),
        (entry(dtype="I3"), "unknown type"),
        (entry(dtype=["BF16"]), "unknown type"),
        (entry(shape=None), "no valid shape"),
        (entry(shape=[2, -4]), "no valid shape"),
        (entry(shape=[True, 4]), "no valid shape"),
        (entry(shape=[2.0, 4]), "no valid shape"),
        (entry(shape=[2**62, 4]), "no valid shape"),
        (entry(shape=[1] * 9), "no valid shape"),
        (entry(shape=[2**61, 2**61, 2**61]), "not as large as its shape says"),
        (entry(shape=[2, 5]), "not as large as its shape says"),
        (entry(dtype="F32"), "not as large as its shape says"),
        (entry(data_offsets=None), "no valid data_offsets"),
        (entry(data_offsets=[0]), "no valid data_offsets"),
        (entry(data_offsets=[-16, 0]), "no valid data_offsets"),
        (entry(data_offsets=[16, 0]), "not as large as its shape says"),
        (entry(data_offsets=["0", "16"]), "no valid data_offsets"),
        (entry(data_offsets=[8, 24]), "beyond the file"),
        (entry(data_offsets=[2**60, 2**60 + 16]), "beyond the file"),
        (b'{"a": %b, "a": %b}' % ((json.dumps(GOOD).encode(),) * 2), "twice"),
        (b'{"\\u001b[2J\\ud800": {}}', "\\x1b"),
    ],
)
def test_a_lying_header_is_one_sentence(tmp_path: Path, header: bytes, says: str) -> None:
    assert says in refused(write_raw(tmp_path / "f", header, 16)).sentence()


@pytest.mark.parametrize(
    ("offsets", "size", "says"),
    [
        ([(0, 16), (8, 24)], 24, "overlaps"),
        ([(0, 16), (0, 16)], 16, "overlaps"),
        ([(0, 16), (20, 36)], 36, "leaves a gap"),
        ([(4, 20)], 20, "leaves a gap"),
        ([(0, 16)], 17, "larger than its header says"),
        ([(0, 16)], 15, "truncated"),
        ([(0, 16)], 0, "truncated"),
    ],
)
def test_tensors_must_fill_the_file_exactly(
    tmp_path: Path, offsets: list[tuple[int, int]], size: int, says: str
) -> None:
    header = {str(i): GOOD | {"data_offsets": list(pair)} for i, pair in enumerate(offsets)}
    assert says in refused(write_raw(tmp_path / "f", json.dumps(header).encode(), size)).sentence()


@pytest.mark.parametrize("size", range(8))
def test_a_file_without_a_whole_length_is_truncated(tmp_path: Path, size: int) -> None:
    (tmp_path / "f").write_bytes(b"\0" * size)
    assert "truncated" in refused(tmp_path / "f").title


@pytest.mark.parametrize(
    ("length", "says"),
    [(100, "truncated"), (MAX_HEADER_BYTES + 1, "not a safetensors file"), (2**64 - 1, "not a safetensors file")],
)
def test_a_length_beyond_the_file_or_the_limit_reads_nothing(tmp_path: Path, length: int, says: str) -> None:
    (tmp_path / "f").write_bytes(struct.pack("<Q", length) + b"{}")
    assert says in refused(tmp_path / "f").title


def test_a_header_of_the_wrong_file_is_refused_though_the_file_is_huge(tmp_path: Path) -> None:
    file = write_raw(tmp_path / "f", b"{}", 10**12, length=10**11)
    assert "not a safetensors file" in refused(file).title


def index(folder: Path, shards: dict[str, Any]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))


def test_shards_are_read_by_their_index(tmp_path: Path) -> None:
    write_tensors(tmp_path / "one.safetensors", {"a": ("BF16", [2])})
    write_tensors(tmp_path / "two.safetensors", {"b": ("BF16", [3])})
    write_tensors(tmp_path / "consolidated.safetensors", {"c": ("BF16", [4])})
    index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    assert sorted(read_folder(tmp_path) or {}) == ["a", "b"]


def test_shards_without_an_index_are_all_read_but_copies_and_adapters(tmp_path: Path) -> None:
    for name in ("model-1", "model-2", "consolidated", "adapter_model"):
        write_tensors(tmp_path / f"{name}.safetensors", {name: ("BF16", [2])})
    assert sorted(read_folder(tmp_path) or {}) == ["model-1", "model-2"]


def test_a_folder_without_weights_or_with_an_index_alone_has_none(tmp_path: Path) -> None:
    assert read_folder(tmp_path) is None
    index(tmp_path, {"a": "one.safetensors"})
    assert read_folder(tmp_path) is None


@pytest.mark.parametrize(
    "weight_map",
    [None, {}, [], {"a": 1}, {"a": "../one.safetensors"}, {"a": "/etc/passwd"}, {"a": ""}, {"a": ".."}, {"a": "x\0"}],
)
def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path, weight_map: Any) -> None:
    index(tmp_path, weight_map)
    with pytest.raises(CockpitError, match=r"index\.json"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "says"),
    [
        ({"a": "one.safetensors", "b": "two.safetensors"}, r"two\.safetensors: cannot be read"),
        ({"a": "one.safetensors", "z": "one.safetensors"}, "'z' is not in one"),
        ({"a": "one.safetensors", "b": "same.safetensors"}, "is in another file too"),
        ({"a": "one.safetensors", "b": "gone.safetensors"}, "points at nothing"),
        ({"a": "one.safetensors", "b": "folder"}, "not a file"),
        ({"a": "one.safetensors", "b": "pipe"}, "not a file"),
    ],
)
def test_an_index_and_its_shards_must_agree(tmp_path: Path, weight_map: dict[str, str], says: str) -> None:
    for name in ("one", "same"):
        write_tensors(tmp_path / f"{name}.safetensors", {"a": ("BF16", [2])})
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    index(tmp_path, weight_map)
    with pytest.raises(CockpitError, match=says):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["real-auto-round", "real-auto-round-moe", "real-compressed-tensors"])
def test_widths_and_bytes_are_those_of_the_files_that_real_tools_wrote(tmp_path: Path, name: str) -> None:
    folder = rebuild(name, tmp_path)
    expected = json.loads((Path(__file__).parents[2] / "fixtures/checkpoints" / name / "expected.json").read_text())
    checkpoint = inspect(str(folder))
    quantization, sizes = checkpoint.quantization, checkpoint.sizes
    assert sizes is not None
    assert not sizes.estimated
    assert {"body": sizes.body, "embed_tokens": sizes.embed_tokens, "lm_head": sizes.lm_head} == expected["sizes"]
    assert sizes.total == sum(expected["sizes"].values())
    assert {str(bits): count for bits, count in quantization.widths.items()} == expected["widths"]
    assert quantization.unquantized_modules == expected["unquantized"]
    asymmetric = sum(count for scheme, count in quantization.schemes if scheme.symmetric is False)
    assert asymmetric == len(expected["asymmetric"])
    assert quantization.mismatched_modules == 0
    assert checkpoint.moe == name.endswith("moe")
    assert quantization.embed_tokens_bits == (8 if "compressed" in name else None)


@pytest.mark.parametrize(("name", "off"), [("auto-round", 0), ("auto-round-moe", 0), ("compressed-tensors", 0.05)])
def test_the_config_alone_says_the_same_as_the_real_files(tmp_path: Path, name: str, off: float) -> None:
    """That version of compressed-tensors leaves gaps when it packs 5 or 6 bits, hence the tolerance."""
    folder = rebuild(f"real-{name}", tmp_path)
    measured, estimated = inspect(str(folder)), inspect(str(folder / "config.json"))
    assert measured.quantization == estimated.quantization
    assert measured.sizes is not None
    assert estimated.sizes is not None
    assert estimated.sizes.total == pytest.approx(measured.sizes.total, rel=off, abs=0)


def test_cutting_a_real_file_short_is_noticed(tmp_path: Path) -> None:
    file = rebuild("real-auto-round", tmp_path) / "model.safetensors"
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size - 1)
    with pytest.raises(CockpitError, match="truncated"):
        inspect(str(tmp_path))


def linear(stored: dict[str, tuple[str, list[int]]]) -> dict[str, tuple[str, list[int]]]:
    return {f"model.layers.0.mlp.up_proj.{suffix}": tensor for suffix, tensor in stored.items()}


def gptq(rows: int, outputs: int, zeros: int) -> dict[str, tuple[str, list[int]]]:
    return {"qweight": ("I32", [rows, outputs]), "scales": ("F16", [2, outputs]), "qzeros": ("I32", [2, zeros])}


def packed(words: int, dtype: str = "I32", scale: str = "BF16") -> dict[str, tuple[str, list[int]]]:
    return {"weight_packed": (dtype, [8, words]), "weight_scale": (scale, [8, 2])}


def plain(dtype: str, shape: list[int], **scale: tuple[str, list[int]]) -> dict[str, tuple[str, list[int]]]:
    return {"weight": (dtype, shape), **scale}


@pytest.mark.parametrize(
    ("name", "stored", "widths", "kind", "mismatched"),
    [
        ("auto-round-w4", gptq(64, 8, 2), {8: 1}, "int", 1),
        ("auto-round-w4", gptq(32, 8, 1), {4: 1}, "int", 0),
        ("auto-round-w3", {"qweight": ("I32", [24, 32]), "scales": ("F16", [2, 32])}, {3: 1}, "int", 0),
        ("awq-w4", {"qweight": ("I32", [256, 8]), "scales": ("F16", [2, 64])}, {4: 1}, "int", 0),
        ("compressed-tensors-w4", packed(64), {8: 1}, "int", 1),
        ("compressed-tensors-w4", packed(32), {4: 1}, "int", 0),
        ("compressed-tensors-int6-flat", packed(48), {6: 1}, "int", 0),
        ("compressed-tensors-int6-flat", packed(52), {6: 1}, "int", 0),
        ("compressed-tensors-nvfp4", packed(16, "U8", "F8_E4M3"), {4: 1}, "float", 0),
        ("nvfp4-beside", plain("U8", [8, 16], weight_scale=("F8_E4M3", [8, 2])), {4: 1}, "float", 0),
        ("fp8", plain("F8_E4M3", [8, 32], weight_scale_inv=("F32", [1, 1])), {8: 1}, "float", 0),
        ("compressed-tensors-w8", plain("I8", [8, 32], weight_scale=("BF16", [8, 1])), {8: 1}, "int", 0),
        ("bitsandbytes-nf4", plain("U8", [128, 1], **{"weight.absmax": ("U8", [4])}), {4: 1}, "float", 0),
        ("unknown-method", gptq(32, 8, 1), {4: 1}, "int", 0),
        ("bf16", plain("BF16", [8, 32]), {}, "", 0),
        ("auto-round-w4", plain("BF16", [8, 32]), {}, "", 1),
        ("bf16", plain("F8_E4M3", [8, 32]), {8: 1}, "float", 1),
    ],
)
def test_the_files_decide_how_a_module_is_stored(
    tmp_path: Path,
    name: str,
    stored: dict[str, tuple[str, list[int]]],
    widths: dict[int, int],
    kind: str,
    mismatched: int,
) -> None:
    write_config(tmp_path, config(name))
    source = Path(__file__).parents[2] / "fixtures/checkpoints" / name / "hf_quant_config.json"
    if source.exists():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    tensors = linear(stored) | {"model.layers.0.input_layernorm.weight": ("BF16", [8])}
    if name in ("fp8", "compressed-tensors-int6-flat"):
        tensors = {key.replace("model.", "model.language_model."): value for key, value in tensors.items()}
    write_tensors(tmp_path / "model.safetensors", tensors)
    quantization = inspect(str(tmp_path)).quantization
    assert quantization.widths == widths
    assert {scheme.kind for scheme, _ in quantization.schemes} == ({kind} if kind else set())
    assert quantization.unquantized_modules == (0 if widths else 1)
    assert quantization.mismatched_modules == mismatched


def test_zero_points_beside_the_weights_make_them_asymmetric(tmp_path: Path) -> None:
    write_config(tmp_path, config("compressed-tensors-w4"))
    stored = {
        "weight_packed": ("I32", [8, 32]),
        "weight_scale": ("BF16", [8, 2]),
        "weight_zero_point": ("I32", [1, 2]),
    }
    write_tensors(tmp_path / "model.safetensors", linear(stored))
    ((scheme, _),) = inspect(str(tmp_path)).quantization.schemes
    assert scheme.symmetric is False


def test_bytes_go_to_the_part_that_the_name_belongs_to(tmp_path: Path) -> None:
    write_config(tmp_path, config("bf16-hybrid"))
    names = {
        "model.language_model.embed_tokens.weight": "embed_tokens",
        "lm_head.weight": "lm_head",
        "model.language_model.layers.63.mlp.up_proj.weight": "body",
        "model.language_model.layers.64.mlp.up_proj.weight": "mtp",
        "model.language_model.layers.64.embed_tokens.weight": "mtp",
        "mtp.layers.0.mlp.up_proj.weight": "mtp",
        "mtp.fc.weight": "mtp",
        "model.visual.blocks.0.attn.qkv.weight": "vision",
        "vision_tower.vision_model.embeddings.patch_embedding.weight": "vision",
        "multi_modal_projector.linear.weight": "vision",
    }
    write_tensors(tmp_path / "model.safetensors", {n: ("BF16", [2**i]) for i, n in enumerate(names)})
    sizes = inspect(str(tmp_path)).sizes
    assert sizes is not None
    for part in ("body", "embed_tokens", "lm_head", "mtp", "vision"):
        assert getattr(sizes, part) == sum(2 * 2**i for i, n in enumerate(names) if names[n] == part), part


def test_an_mtp_head_counts_when_the_files_hold_it(tmp_path: Path) -> None:
    write_config(tmp_path, config("bf16-hybrid"))
    write_tensors(tmp_path / "model.safetensors", {"lm_head.weight": ("BF16", [8, 4])})
    assert inspect(str(tmp_path)).mtp_layers == 0
    write_tensors(tmp_path / "model.safetensors", {f"mtp.layers.{i}.norm.weight": ("BF16", [8]) for i in (0, 1)})
    assert inspect(str(tmp_path)).mtp_layers == 2


def test_experts_in_the_files_make_a_mixture_whatever_the_config_says(tmp_path: Path) -> None:
    write_config(tmp_path, config("auto-round-w4"))
    write_tensors(tmp_path / "model.safetensors", {"model.layers.0.mlp.experts.3.up_proj.weight": ("BF16", [8, 4])})
    assert inspect(str(tmp_path)).moe


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=60_000)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    file.write_bytes(data)
    refused(file) if data[:8] != struct.pack("<Q", 2) else None


@settings(max_examples=150, deadline=60_000)
@given(
    st.sampled_from(["dtype", "shape", "data_offsets", "all", "more"]),
    json_values,
    st.integers(0, 40),
)
def test_any_change_of_a_true_header_is_read_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, where: str, value: Any, size: int
) -> None:
    entries, _ = header_of({"a.weight": ("BF16", [2, 4]), "b.weight": ("I32", [4])})
    if where == "all":
        entries["a.weight"] = value
    elif where == "more":
        entries["c.weight"] = value
    else:
        entries["a.weight"][where] = value
    file = write_raw(tmp_path_factory.getbasetemp() / "fuzz.safetensors", json.dumps(entries).encode(), size)
    try:
        tensors = read_header(file)
    except CockpitError as error:
        assert error.fix
    else:
        assert sum(tensor.size for tensor in tensors.values()) == size
