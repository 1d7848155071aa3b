"""The shipped model of the demo: its figures are promised in the documentation."""

from __future__ import annotations

import json

from cockpit import paths

FOLDER = paths.shipped("slugs") / "cpu" / "tiny-qwen3"
CONFIG = json.loads((FOLDER / "config.json").read_text())
TOKENIZER = json.loads((FOLDER / "tokenizer.json").read_text())


def test_one_gib_of_kv_holds_2097152_tokens() -> None:
    per_layer = 2 * CONFIG["num_key_value_heads"] * CONFIG["head_dim"] * 2
    assert 1024**3 // (per_layer * CONFIG["num_hidden_layers"]) == 2_097_152


def test_the_vocabulary_fits_the_embedding_and_covers_every_byte() -> None:
    vocabulary = TOKENIZER["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(CONFIG["vocab_size"]))
    assert sum(1 for token in vocabulary if len(token) == 1) == 256


def test_the_end_of_a_turn_is_the_end_of_the_answer() -> None:
    special = {entry["content"]: entry["id"] for entry in TOKENIZER["added_tokens"]}
    settings = json.loads((FOLDER / "tokenizer_config.json").read_text())
    generation = json.loads((FOLDER / "generation_config.json").read_text())
    assert special[settings["eos_token"]] == CONFIG["eos_token_id"]
    assert CONFIG["eos_token_id"] in generation["eos_token_id"]
    assert special[settings["pad_token"]] == CONFIG["pad_token_id"]


def test_it_is_small_enough_to_ship() -> None:
    assert (FOLDER / "tokenizer.json").stat().st_size < 40_000
