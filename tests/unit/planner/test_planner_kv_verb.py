"""`cockpit kv`: every way to name a model, the JSON, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import FIXTURES, config, write_config
from kv_evidence import ROWS

from cockpit.cli.main import main

Kv = Callable[..., tuple[int, str, str]]
FIGURES = {
    "block_size_tokens",
    "bytes_per_block",
    "blocks",
    "blocks_per_request",
    "capacity_tokens",
    "max_concurrency",
}


@pytest.fixture
def kv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kv:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["kv", *words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and "bug in cockpit" not in err
        return code, out, err

    return run


def _json(answer: tuple[int, str, str]) -> dict[str, Any]:
    value = json.loads(answer[1])
    assert set(value) >= FIGURES
    return value


@pytest.mark.parametrize("name", ["bf16-hybrid", "bf16-hybrid/config.json"])
def test_a_folder_and_its_config_give_the_published_figure(kv: Kv, name: str) -> None:
    words = ["--tensor-parallel", "2", "--speculative-tokens", "3", "--available-gib", "8.97", "--json"]
    answer = kv(str(FIXTURES / name), *words)
    assert answer[0] == 0 and answer[2] == ""
    value = _json(answer)
    assert (value["block_size_tokens"], value["blocks"], value["blocks_per_request"]) == (800, 345, 343)
    assert (value["capacity_tokens"], round(value["max_concurrency"], 2)) == (263_672, 1.01)
    assert (value["fits"], value["largest_max_model_len"], value["unknown"]) == (True, 262_144, None)


def test_a_hybrid_without_drafts_gives_what_an_h200_printed(kv: Kv) -> None:
    words = ["--available-gib", "110.29", "--max-model-len", "262144", "--engine-version", "0.26.0"]
    words += ["--capability", "9.0", "--max-num-batched-tokens", "8192", "--json"]
    value = _json(kv(str(FIXTURES / "qwen3.5-8-layers"), *words))
    assert (value["capacity_tokens"], round(value["max_concurrency"], 2)) == (14_300_032, 54.55)


@pytest.mark.parametrize("row", [row for row in ROWS if "35b" in row["model"]], ids=lambda row: str(row["tokens"]))
def test_options_reach_the_forecast(kv: Kv, row: dict[str, Any]) -> None:
    words = [str(FIXTURES / "auto-round-w4-moe"), "--kv-cache-dtype", row["kv_cache_dtype"]]
    words += ["--tensor-parallel", str(row["tensor_parallel"]), "--max-model-len", str(row["max_model_len"])]
    words += ["--prefix-caching", "on", "--available-gib", str(row["available_gib"]), "--json"]
    value = _json(kv(*words))
    assert value["block_size_tokens"] == row["block_size"]
    # The pool is printed with two decimals: a block more or less is all that this leaves open.
    assert abs(value["capacity_tokens"] - row["tokens"]) <= 2 * row["tokens"] / value["blocks"]


def test_a_slug_brings_its_settings_and_options_go_before_them(kv: Kv) -> None:
    value = _json(kv("cpu/tiny-qwen3", "--available-gib", "1", "--json"))
    assert (value["capacity_tokens"], value["block_size_tokens"], value["max_concurrency"]) == (
        2_097_152,
        128,
        1024.0,
    )
    value = _json(kv("cpu/tiny-qwen3", "--available-gib", "1", "--platform", "cuda", "--json"))
    assert value["block_size_tokens"] == 16


def test_a_slug_whose_files_are_not_here_is_forecast_from_what_it_declares(kv: Kv, tmp_path: Path) -> None:
    words = ["vllm/qwen38-27b-int6-mixed", "--available-gib", "8.96"]
    code, out, err = kv(*words)
    assert code == 0 and "tokens in 8.96 GiB a GPU" in out
    assert err.count("\n") == 1 and "are not here" in err and "vllm/qwen38-27b-int6-mixed declares" in err
    value = _json(kv(*words, "--json"))
    assert value["capacity_tokens"] > 0 and value["checkpoint"] == "declared"
    assert _json(kv("cpu/tiny-qwen3", "--available-gib", "1", "--json"))["checkpoint"] == "files"

    slugs = tmp_path / "config" / "cockpit" / "slugs"
    slugs.mkdir(parents=True)
    (slugs / "bare.yaml").write_text(
        "name: vllm/bare\nmodel: Bare\nweights: {repo: o/n, format: bf16}\nmax_model_len: 4096\n"
    )
    code, out, err = kv("vllm/bare", "--available-gib", "1")
    assert (code, out) == (2, "") and "not in the Hugging Face cache" in err


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ("{kv-cache-dtype-skip-layers: ['0']}", "--kv-cache-dtype-skip-layers"),
        ("{block-size: 64}", "--block-size"),
        ("{pipeline-parallel-size: 2}", "pipeline"),
        ("{dtype: float32}", "float32"),
    ],
)
def test_flags_of_a_slug_that_are_not_modelled_are_exit_1_as_for_a_plan(
    kv: Kv, tmp_path: Path, flags: str, word: str
) -> None:
    code, out, _ = kv(with_flags(tmp_path, flags), "--available-gib", "10", "--json")
    value = json.loads(out)
    assert (code, value["capacity_tokens"]) == (1, None) and word in value["unknown"]


@pytest.mark.parametrize("flags", ["{cpu-offload-gb: 4}", "{dtype: bfloat16}", "{enable-lora: false}"])
def test_flags_of_a_slug_that_change_nothing_of_the_pool_leave_it(kv: Kv, tmp_path: Path, flags: str) -> None:
    value = _json(kv(with_flags(tmp_path, flags), "--available-gib", "10", "--json"))
    assert value["capacity_tokens"] == 81_920


def test_the_step_of_a_slug_is_read_as_vllm_reads_it(kv: Kv, tmp_path: Path) -> None:
    for text in ("4096", "'4096'", "4K"):
        name = with_flags(tmp_path, f"{{max-num-batched-tokens: {text}}}", "gemma3")
        assert _json(kv(name, "--available-gib", "10", "--json"))["max_num_batched_tokens"] == 4096


def with_flags(home: Path, flags: str, model: str = "llama") -> str:
    """The name of a slug of the user's for a checkpoint that is here, with further flags."""
    slugs = home / "config" / "cockpit" / "slugs"
    slugs.mkdir(parents=True, exist_ok=True)
    (slugs / "flagged.yaml").write_text(
        f"name: vllm/flagged\nmodel: Flagged\nmax_model_len: 4096\nflags: {flags}\n"
        f"weights: {{path: {FIXTURES / model}, format: bf16}}\n"
    )
    return "vllm/flagged"


def test_a_cached_repository_is_found_by_name(kv: Kv, tmp_path: Path) -> None:
    snapshot = tmp_path / "cache" / "huggingface" / "hub" / "models--some--model" / "snapshots" / "abc"
    write_config(snapshot, config("llama"))
    assert _json(kv("some/model", "--available-gib", "10", "--json"))["capacity_tokens"] == 81_920


def test_people_read_the_same_figures(kv: Kv) -> None:
    code, out, _ = kv(str(FIXTURES / "llama"), "--available-gib", "10", "--max-model-len", "32K")
    assert code == 0
    assert "81,920 tokens in 10.00 GiB a GPU" in out
    assert "2.50 of 32,768 tokens each" in out
    code, out, _ = kv(str(FIXTURES / "llama"), "--available-gib", "10")
    assert code == 0
    assert "does not fit: one request needs 16.00 GiB; the longest that fits is 81,904 tokens" in out
    assert "2,048 tokens; windowed" in kv(str(FIXTURES / "gemma3"), "--available-gib", "10")[1]


def test_an_unknown_family_is_exit_1_with_its_reason_and_nulls(kv: Kv) -> None:
    answer = kv(str(FIXTURES / "deepseek-v3"), "--available-gib", "10", "--json")
    assert answer[0] == 1
    value = _json(answer)
    assert all(value[name] is None for name in FIGURES)
    assert "latent attention" in value["unknown"]
    code, out, _ = kv(str(FIXTURES / "jamba"), "--available-gib", "10")
    assert code == 1 and out.startswith("unknown") and "Mamba" in out and not any(sign.isdigit() for sign in out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "CONFIG"),
        (["nowhere"], "--available-gib"),
        (["nowhere", "--available-gib", "1"], "no such folder or file"),
        (["", "--available-gib", "1"], "no such folder or file"),
        (["a\0b", "--available-gib", "1"], "no such folder or file"),
        (["x" * 5000, "--available-gib", "1"], "no such folder or file"),
        (["some/model", "--available-gib", "1"], "not in the Hugging Face cache"),
        (["LLAMA", "--available-gib", "0"], "--available-gib"),
        (["LLAMA", "--available-gib", "-3"], "--available-gib"),
        (["LLAMA", "--available-gib", "nan"], "--available-gib"),
        (["LLAMA", "--available-gib", "inf"], "--available-gib"),
        (["LLAMA", "--available-gib", "1e999"], "--available-gib"),
        (["LLAMA", "--available-gib", "1", "--tensor-parallel", "0"], "--tensor-parallel"),
        (["LLAMA", "--available-gib", "1", "--speculative-tokens", "99"], "--speculative-tokens"),
        (["LLAMA", "--available-gib", "1", "--max-model-len", "long"], "--max-model-len"),
        (["LLAMA", "--available-gib", "1", "--kv-cache-dtype", "fp9\x1b[31m"], "--kv-cache-dtype"),
        (["LLAMA", "--available-gib", "1", "--prefix-caching", "maybe"], "--prefix-caching"),
        (["LLAMA", "--available-gib", "1", "--engine-version", "new"], "--engine-version"),
        (["LLAMA", "--available-gib", "1", "--capability", "86"], "--capability"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(kv: Kv, words: list[str], says: str) -> None:
    code, out, err = kv(*(str(FIXTURES / "llama") if word == "LLAMA" else word for word in words))
    assert (code, out) == (2, "")
    assert err.startswith("cockpit: ") and err.count("\n") == 1 and says in err
    assert "\x1b" not in err


def test_a_context_that_nobody_gave_is_asked_for(kv: Kv, tmp_path: Path) -> None:
    said = config("llama")
    said.pop("max_position_embeddings")
    folder = write_config(tmp_path / "short", said)
    code, _, err = kv(str(folder), "--available-gib", "1")
    assert code == 2 and "Give --max-model-len." in err
    assert kv(str(folder), "--available-gib", "1", "--max-model-len", "4096")[0] == 0
