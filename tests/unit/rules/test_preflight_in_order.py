"""What is in order is not complained about, and what a slug brings itself is not missed."""

from __future__ import annotations

from typing import Any

import pytest
from made_checkpoints import checkpoint, quantized, scheme
from made_plans import (
    ENGINE,
    HOST,
    KNOWN,
    NEEDS_CODE,
    OWN_PROCESSOR,
    OWN_TOKENIZER,
    TYPES,
    W4,
    WHOLE,
    changed,
    findings,
    gpus,
    sizes,
)

from cockpit.catalog.slug import Weights
from cockpit.checkpoint.types import Beside, OwnCode


@pytest.mark.parametrize(
    ("of", "rule"),
    [
        ({"host": changed(HOST, unwritable=("/cache",))}, "cache-unwritable"),
        (
            {"slug": {"env": {"VLLM_CACHE_ROOT": "/v"}}, "host": changed(HOST, unwritable=("/home/u/.cache/vllm",))},
            "cache-unwritable",
        ),
        (
            {"slug": {"env": {"TMPDIR": "/tmp"}}, "host": changed(HOST, socket_folder="/scratch/" + "x" * 70)},
            "socket-path",
        ),
        ({"host": changed(HOST, socket_folder="/tmp"), "slug": {"env": {}}}, "socket-path"),
        (
            {
                "slug": {"env": {"VLLM_RPC_BASE_PATH": "/tmp"}},
                "host": changed(HOST, socket_folder="/scratch/" + "x" * 70),
            },
            "socket-path",
        ),
        (
            {"slug": {"flags": {"max-num-batched-tokens": 2048}}, "values": {"max_num_seqs": 2048}},
            "batched-tokens",
        ),
        (
            {"slug": {"flags": {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}}},
            "flag-needs",
        ),
        ({"slug": {"flags": {"tool-call-parser": "of-another-vllm"}}}, "parser-unknown"),
        (
            {"slug": {"flags": {"reasoning-parser": "mine", "reasoning-parser-plugin": "/p/mine.py"}}},
            "parser-unknown",
        ),
        ({"slug": {"flags": {"reasoning-parser": "qwen3"}}}, "parser-unknown"),
        ({"of": checkpoint(dual_chunk=True, model_type="other", beside=WHOLE)}, "dual-chunk"),
        (
            {"slug": {"flags": {"reasoning-parser": "x"}}, "engine": changed(ENGINE, reasoning_parsers=None)},
            "parser-unknown",
        ),
        (
            {
                "of": checkpoint(beside=changed(WHOLE, tokenizer_of_5="has extra_special_tokens as a list")),
                "engine": changed(ENGINE, transformers="5.16.1"),
            },
            "tokenizer-newer",
        ),
        (
            {
                "of": checkpoint(beside=changed(WHOLE, tokenizer_of_5="has extra_special_tokens as a list")),
                "engine": changed(ENGINE, transformers="4.57.6"),
                "slug": {"flags": {"tokenizer": "o/original"}},
            },
            "tokenizer-newer",
        ),
        ({"of": NEEDS_CODE}, "remote-code"),
        ({"of": NEEDS_CODE, "engine": changed(ENGINE, config_types=(*TYPES, "odd_vl"))}, "remote-code"),
        (
            {
                "of": NEEDS_CODE,
                "engine": changed(ENGINE, config_types=TYPES),
                "slug": {"flags": {"trust-remote-code": True}},
            },
            "remote-code",
        ),
        (
            {
                "of": NEEDS_CODE,
                "engine": changed(ENGINE, config_types=TYPES),
                "slug": {"flags": {"hf-overrides": '{"model_type": "llama"}'}},
            },
            "remote-code",
        ),
        ({"of": OWN_TOKENIZER}, "remote-code"),
        ({"of": OWN_TOKENIZER, "engine": changed(ENGINE, tokenizers=("odd",))}, "remote-code"),
        ({"of": OWN_TOKENIZER, "engine": changed(ENGINE, tokenizers=("llama", "OddTokenizer"))}, "remote-code"),
        (
            {
                "of": changed(
                    OWN_TOKENIZER, beside=changed(WHOLE, tokenizer_code=OwnCode("t.T", "PreTrainedTokenizerFast"))
                ),
                "engine": changed(ENGINE, **KNOWN),
            },
            "remote-code",
        ),
        *(
            (
                {"of": OWN_TOKENIZER, "engine": changed(ENGINE, **KNOWN), "slug": {"flags": {flag: value}}},
                "remote-code",
            )
            for flag, value in (
                ("trust-remote-code", True),
                ("tokenizer", "o/other"),
                ("tokenizer-mode", "slow"),
                ("skip-tokenizer-init", True),
            )
        ),
        ({"of": OWN_PROCESSOR}, "remote-code"),
        ({"of": OWN_PROCESSOR, "engine": changed(ENGINE, processors=("OddProcessor",))}, "remote-code"),
        ({"of": OWN_PROCESSOR, "engine": changed(ENGINE, **KNOWN), "values": {"vision": "off"}}, "remote-code"),
        ({"of": changed(OWN_PROCESSOR, vision=False), "engine": changed(ENGINE, **KNOWN)}, "remote-code"),
        ({"slug": {"flags": {"quantization": "awq"}}}, "quantization-differs"),
        (
            {
                "of": checkpoint(quantized(method="none"), beside=WHOLE),
                "slug": {"flags": {"quantization": "fp8"}, "weights": Weights(format="bf16", repo="o/n")},
            },
            "quantization-differs",
        ),
        (
            {
                "of": checkpoint(quantized(scheme(), method="gptq"), beside=WHOLE),
                "slug": {"flags": {"quantization": "gptq_marlin"}, "weights": changed(W4, format="gptq")},
            },
            "quantization-differs",
        ),
        ({"slug": {"flags": {"pipeline-parallel-size": 2}}, "values": {"tensor_parallel": 1}}, "ranks"),
        ({"slug": {"flags": {"data-parallel-size": 8, "data-parallel-address": "10.0.0.1"}}}, "ranks"),
        ({"slug": {"flags": {"pipeline-parallel-size": True}}}, "ranks"),
        (
            {
                "of": checkpoint(attention_heads=8, kv_heads=1, beside=WHOLE),
                "slug": {"flags": {"decode-context-parallel-size": 2}},
            },
            "decode-context",
        ),
        (
            {
                "of": checkpoint(model_type="deepseek_v3", beside=WHOLE),
                "slug": {"flags": {"decode-context-parallel-size": 2}},
            },
            "decode-context",
        ),
        ({"slug": {"flags": {"enable-dbo": True, "all2all-backend": "deepep_low_latency"}}}, "microbatches"),
        ({"of": checkpoint(model_type="gemma3_text", beside=WHOLE)}, "float16-refused"),
        ({"values": {"kv_cache_dtype": "fp8_e4m3"}}, "kv-fp8-triton"),
        (
            {
                "slug": {"flags": {"attention-backend": "TRITON_ATTN"}},
                "values": {"kv_cache_dtype": "fp8_e4m3"},
                "rig": gpus("NVIDIA GeForce RTX 4090", (8, 9)),
            },
            "kv-fp8-triton",
        ),
    ],
)
def test_what_is_in_order_is_not_complained_about(of: dict[str, Any], rule: str) -> None:
    assert rule not in {finding.rule for finding in findings(**of)}


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ({"tokenizer": "o/n"}, "tokenizer-missing"),
        ({"skip-tokenizer-init": True}, "tokenizer-missing"),
        ({"chat-template": "/x.jinja"}, "chat-template-missing"),
    ],
)
def test_what_the_slug_brings_itself_is_not_missed(flags: dict[str, Any], rule: str) -> None:
    lacking = Beside(tokenizer=rule != "tokenizer-missing", chat_template=False, gguf=False)
    bare = checkpoint(beside=lacking, sizes=sizes(17))
    assert rule in {finding.rule for finding in findings(of=bare)}
    assert rule not in {finding.rule for finding in findings(of=bare, slug={"flags": flags})}
