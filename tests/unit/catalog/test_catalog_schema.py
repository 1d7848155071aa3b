"""The JSON Schema for editors: current, a schema, and of one mind with the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cockpit import paths
from cockpit.catalog.schema import slug_schema, slug_schema_text
from cockpit.catalog.slug import Slug
from cockpit.errors import CockpitError
from cockpit.strict_yaml import decode

SHIPPED = paths.shipped("slugs")
VALIDATOR = jsonschema.Draft202012Validator(slug_schema())
GOOD = "name: vllm/a\nmodel: A\nweights: {repo: o/n, format: bf16}\nmax_model_len: 4096\n"


def raw(text: str) -> dict[str, Any]:
    return decode(text, dict[str, Any], "f.yaml")[0]


def test_the_file_is_what_the_structs_say() -> None:
    message = "run scripts/make_schema.py"
    assert (SHIPPED / "slug.schema.json").read_text(encoding="utf-8") == slug_schema_text(), message


def test_it_is_a_valid_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(slug_schema())


@pytest.mark.parametrize("file", sorted(SHIPPED.rglob("*.yaml")), ids=lambda file: file.stem)
def test_every_shipped_slug_passes_it(file: Path) -> None:
    VALIDATOR.validate(raw(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "change",
    ["naem: x", "int8: true", "tensor_parallel: 0", "tensor_parallel: 65", "flags: {Bad: 1}", "env: {A: 1}",
     "speculative: {method: mtp}", "quality: {kld: -1}", "platform: tpu", "aliases: [nope]", "flags: {a: null}",
     "max_num_seqs: 1.5"],
)  # fmt: skip
def test_what_the_catalog_refuses_the_editor_marks(change: str) -> None:
    text = f"{GOOD}{change}\n"
    with pytest.raises(CockpitError):
        decode(text, Slug, "f.yaml")
    assert list(VALIDATOR.iter_errors(raw(text)))


@pytest.mark.parametrize(
    "change",
    ["int8: on", "flags: {a: true, b: [1, x], c: {d: 0.5}}", "prefix_caching: off", "kv_cache_dtype: fp8",
     "quality: {kld: 0.1, top1_fraction: 0.9}"],
)  # fmt: skip
def test_what_the_catalog_takes_the_editor_takes(change: str) -> None:
    text = f"{GOOD}{change}\n"
    decode(text, Slug, "f.yaml")
    assert not list(VALIDATOR.iter_errors(raw(text)))
