"""What lies beside the weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.checkpoint.beside import read_beside
from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import OwnCode
from cockpit.errors import CockpitError
from cockpit.paths import shipped


@pytest.mark.parametrize(
    ("files", "tokenizer", "template"),
    [
        ({"tokenizer.json": "{}", "tokenizer_config.json": '{"chat_template": "x"}'}, True, True),
        ({"tokenizer.json": "{}", "tokenizer_config.json": "{}"}, True, False),
        ({"tokenizer.model": "", "chat_template.jinja": "x"}, True, True),
        ({"tekken.json": "{}"}, True, True),
        ({"tokenizer_config.json": "{"}, False, None),
        ({"config.json": "{}"}, False, False),
        ({"vocab.json": "{}", "merges.txt": "", "chat_template.json": "{}"}, True, True),
        ({"qwen.tiktoken": ""}, True, False),
    ],
)
def test_tokenizers_and_templates(
    tmp_path: Path, files: dict[str, str], tokenizer: bool, template: bool | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    beside = read_beside(tmp_path)
    assert beside is not None and (beside.tokenizer, beside.chat_template) == (tokenizer, template)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"added_tokens": []}', None),
        (b"\xef\xbb\xbf { }\n", None),
        (b'{"added_tokens": [' + b" " * 5000, "is cut off"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 11422654\n", "is a Git LFS pointer"),
        (b"<html>404</html>", "is no JSON object"),
    ],
)
def test_a_tokenizer_that_cannot_be_one_is_seen_by_its_ends(
    tmp_path: Path, content: bytes, fault: str | None
) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    beside = read_beside(tmp_path)
    assert beside is not None and beside.tokenizer
    assert beside.tokenizer_fault is None if fault is None else (beside.tokenizer_fault or "").startswith(fault)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"tokenizer_class": "TokenizersBackend"}', "names the class TokenizersBackend"),
        ('{"extra_special_tokens": ["<a>"]}', "has extra_special_tokens as a list"),
        ('{"extra_special_tokens": {"a": "<a>"}, "tokenizer_class": "Qwen2Tokenizer"}', None),
        ('{"tokenizer_class": "TokenizersBackend", "auto_map": {"AutoTokenizer": ["a.B", null]}}', None),
        ("{", None),
    ],
)
def test_what_only_transformers_5_reads_is_seen(tmp_path: Path, config: str, said: str | None) -> None:
    (tmp_path / "tokenizer_config.json").write_text(config)
    beside = read_beside(tmp_path)
    assert beside is not None and beside.tokenizer_of_5 == said


def test_a_tokenizer_that_points_at_nothing_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to(tmp_path / "gone")
    beside = read_beside(tmp_path)
    assert beside is not None and beside.tokenizer_fault == "cannot be read (No such file or directory)"


def test_a_folder_that_cannot_be_listed_is_unknown(tmp_path: Path) -> None:
    assert read_beside(tmp_path / "no") is None


def test_the_shipped_model_is_whole() -> None:
    beside = inspect(str(shipped("slugs") / "cpu" / "tiny-qwen3")).beside
    assert beside is not None and beside.tokenizer and beside.chat_template


def test_a_folder_of_gguf_files_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "model-Q4_K_M.gguf").write_bytes(b"GGUF")
    with pytest.raises(CockpitError, match="GGUF"):
        inspect(str(tmp_path))


def test_a_scaling_of_the_config_is_read(tmp_path: Path) -> None:
    source = shipped("slugs") / "cpu" / "tiny-qwen3" / "config.json"
    config = json.loads(source.read_text())
    config["rope_scaling"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    config["dual_chunk_attention_config"] = {"chunk_size": 262144}
    config.pop("rope_parameters", None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert inspect(str(tmp_path)).dual_chunk and not inspect(str(source.parent)).dual_chunk
    scaling = inspect(str(tmp_path)).rope_scaling
    assert scaling is not None and (scaling.kind, scaling.factor, scaling.original) == ("yarn", 4.0, 512)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"model_type": "odd", "auto_map": {"AutoConfig": "c.OddConfig"}}, ("odd", "c.OddConfig")),
        ({"model_type": "odd", "auto_map": {"AutoModel": "m.Odd"}}, None),
        ({"model_type": "odd", "auto_map": ["AutoConfig"]}, None),
        ({"auto_map": {"AutoConfig": "c.OddConfig"}}, None),
        ({"model_type": "odd"}, None),
        ({"model_type": "odd", "auto_map": {"AutoConfig": "c.OddConfig"}, "speculators_config": {}}, None),
        ({"model_type": "odd\x1b[2J", "auto_map": {"AutoConfig": "c.OddConfig"}}, None),
        ({"model_type": 7, "auto_map": {"AutoConfig": "c.OddConfig"}}, None),
    ],
)
def test_a_config_class_of_its_own(tmp_path: Path, config: dict[str, object], code: tuple[str, str] | None) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    beside = read_beside(tmp_path)
    assert beside is not None and beside.config_code == code
    (tmp_path / "params.json").write_text("{}")
    beside = read_beside(tmp_path)
    assert beside is not None and beside.config_code is None


@pytest.mark.parametrize(
    ("files", "tokenizer", "processor"),
    [
        (
            {"tokenizer_config.json": {"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["t.T", None]}}},
            OwnCode("t.T", "T"),
            None,
        ),
        (
            {"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["t.T", "t.F"]}}},
            OwnCode("t.F", None),
            None,
        ),
        ({"tokenizer_config.json": {"auto_map": ["t.T", None]}}, OwnCode("t.T", None), None),
        ({"tokenizer_config.json": {"tokenizer_class": "T"}}, None, None),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["t.T\x1b[2J", None]}}}, None, None),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": [None, 7]}}}, None, None),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["t.T", None]}}, "tekken.json": {}}, None, None),
        (
            {"preprocessor_config.json": {"processor_class": "P", "auto_map": {"AutoProcessor": "o/n--p.P"}}},
            None,
            OwnCode("o/n--p.P", "P"),
        ),
        (
            {
                "processor_config.json": {"processor_class": "LlavaProcessor"},
                "preprocessor_config.json": {"auto_map": {"AutoProcessor": "p.P"}},
            },
            None,
            None,
        ),
        ({"preprocessor_config.json": {"auto_map": {"AutoImageProcessor": "p.I"}}}, None, None),
        ({"tokenizer_config.json": {"auto_map": {"AutoProcessor": "p.P"}}}, None, OwnCode("p.P", None)),
    ],
)
def test_code_of_its_own_for_text_and_images(
    tmp_path: Path, files: dict[str, object], tokenizer: OwnCode | None, processor: OwnCode | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    beside = read_beside(tmp_path)
    assert beside is not None and (beside.tokenizer_code, beside.processor_code) == (tokenizer, processor)
