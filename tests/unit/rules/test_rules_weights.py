"""Weights against the engine and the GPUs: each rule where it fires, and where it must not."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest
from checkpoint_files import FIXTURES
from made_checkpoints import changed, checkpoint, quantized, scheme

from cockpit.catalog.slug import Slug, Weights
from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint, Sizes
from cockpit.rig.types import Engine, Gpu, Rig
from cockpit.rules.context import Context
from cockpit.rules.declared import formats_of
from cockpit.rules.finding import Finding
from cockpit.rules.plan_rules import refusals
from cockpit.rules.weights import RULES

ALL_WIDTHS = (2, 3, 4, 5, 6, 7, 8)


def engine(**fields: Any) -> Engine:
    """A vLLM that takes everything that is packed, with changes."""
    full: dict[str, Any] = {
        "id": "e",
        "path": "/e/vllm",
        "python": "/e/python",
        "package": "/e",
        "version": "0.33.0",
        "platform": "cuda",
        "wna16_bits": ALL_WIDTHS,
        "wna16_zero_point_bits": ALL_WIDTHS,
        "humming": "1.0",
        "moe_packed_widths": ALL_WIDTHS,
        "quantized_embedding": True,
        "models": ("Qwen3ForCausalLM", "Qwen3_5ForConditionalGeneration"),
        "quantization_methods": ("auto-round", "quark"),
    }
    return Engine(**full | fields)


def declared(of: Checkpoint, **fields: Any) -> Weights:
    """A slug's words that agree with the checkpoint, with changes."""
    words: dict[str, Any] = {
        "format": formats_of(of)[0] if of.quantization.method not in ("other", "bitsandbytes") else "bf16",
        "path": "/models/a",
        "widths": sorted(of.quantization.widths),
        "moe": of.moe,
        "vision": of.vision,
    }
    return Weights(**words | fields)


def context(
    of: Checkpoint | None = None,
    *,
    vllm: Engine | str | None = "full",
    capability: tuple[int, int] | None = (8, 6),
    weights: Weights | None = None,
    platform: Any = "cuda",
    **fields: Any,
) -> Context:
    gpus = (Gpu(index=0, uuid="GPU-0", name="a card", capability=capability),)
    slug_fields = {"flags": fields.pop("flags", {})}
    chosen = weights or declared(of or checkpoint())
    slug = Slug(name="vllm/a", model="A", weights=chosen, max_model_len=4096, platform=platform, **slug_fields)
    values = {"gpus": () if platform == "cpu" else (0,)}
    used = engine() if isinstance(vllm, str) else vllm
    return Context(slug=slug, checkpoint=of, rig=Rig(gpus=gpus), engine=used, values=values, **fields)


def found(ctx: Context) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(ctx)]


INT6 = quantized(scheme(6), method="compressed-tensors")
ASYMMETRIC = quantized(scheme(symmetric=False), scheme(6, symmetric=False), method="compressed-tensors")
QWEN35 = {"architecture": "Qwen3_5ForConditionalGeneration"}
PACKED_OTHERWISE = changed(checkpoint(**QWEN35), embed_tokens_bits=8)
EMBEDDED = changed(PACKED_OTHERWISE, method="compressed-tensors")
MTP_TARGETS = changed(checkpoint(mtp_layers=1), plain_targets=("lm_head", "model.embed_tokens", "model.layers.0.x"))
MOE6 = checkpoint(INT6, moe=True)
QUARK = checkpoint(msgspec.structs.replace(quantized(method="other"), declared_method="quark"))
NO_FILES = checkpoint(sizes=Sizes(total=10, body=10, embed_tokens=0, lm_head=0, mtp=0, vision=0, estimated=True))
WITH_FILES = checkpoint(sizes=Sizes(total=10, body=10, embed_tokens=0, lm_head=0, mtp=0, vision=0, estimated=False))


class Case(NamedTuple):
    """A plan and the one finding that it must have; None is none at all."""

    ctx: Context
    rule: str | None
    severity: str = "block"
    level: str = "rig"
    says: str = ""


CASES: dict[str, Case] = {
    "a fit plan": Case(context(checkpoint()), None),
    "no checkpoint, no engine": Case(context(vllm=None), None),
    # Widths of packed integers.
    "5 bits before they were taken": Case(
        context(checkpoint(quantized(scheme(5))), vllm=engine(version="0.24.0", wna16_bits=(4, 8))),
        "wna16-widths", says="vLLM 0.24.0 takes no 5-bit packed weights",
    ),
    "only the missing width is named": Case(
        context(checkpoint(quantized(scheme(4), scheme(6))), vllm=engine(wna16_bits=(4, 8))),
        "wna16-widths", says="takes no 6-bit packed weights",
    ),
    "widths as the slug declares them": Case(
        context(
            weights=Weights(format="compressed-tensors", repo="o/n", widths=[5, 6]),
            vllm=engine(wna16_bits=(5,)),
        ),
        "wna16-widths", says="takes no 6-bit packed weights",
    ),
    "every width in the map": Case(context(checkpoint(quantized(*map(scheme, ALL_WIDTHS)))), None),
    "a map that cannot be read": Case(context(checkpoint(INT6), vllm=engine(wna16_bits=None)), None),
    "floats are not in that map": Case(
        context(checkpoint(quantized(scheme(8, "float"), method="fp8")), vllm=engine(wna16_bits=(4,))), None
    ),
    "int8 with 8-bit activations goes another way": Case(
        context(
            checkpoint(quantized(scheme(8, activation_bits=8), method="compressed-tensors")),
            vllm=engine(wna16_bits=(4,)),
        ), None,
    ),
    # Humming.
    "6 bits without humming-kernels": Case(
        context(checkpoint(INT6), vllm=engine(humming=None)), "humming-missing",
        says="6-bit weights need the Humming kernel, and e has no humming-kernels",
    ),
    "4 and 8 bits need none": Case(
        context(checkpoint(quantized(scheme(4), scheme(8))), vllm=engine(humming=None)), None
    ),
    "on the CPU there is no Humming": Case(
        context(checkpoint(INT6), platform="cpu", vllm=engine(platform="cpu", humming=None, wna16_bits=(4,))), None
    ),
    "Humming on Volta": Case(
        context(checkpoint(INT6), capability=(7, 0)), "humming-capability",
        says="need a GPU of compute capability 7.5, one of the chosen has 7.0",
    ),
    "Humming on Turing": Case(context(checkpoint(INT6), capability=(7, 5)), None),
    "Humming on an unknown GPU": Case(context(checkpoint(INT6), capability=None), None),
    "4 bits on Volta": Case(context(checkpoint(), capability=(7, 0)), None),
    "an old GPU beside a CPU plan": Case(
        context(checkpoint(INT6), platform="cpu", capability=(6, 1), vllm=engine(platform="cpu")), None
    ),
    # Zero points.
    "asymmetric 6 bits before they were taken": Case(
        context(checkpoint(ASYMMETRIC), vllm=engine(version="0.26.0", wna16_zero_point_bits=(4, 8))),
        "wna16-zero-points", says="vLLM 0.26.0 takes no asymmetric 6-bit weights",
    ),
    "symmetric 6 bits have no zero points": Case(
        context(checkpoint(INT6), vllm=engine(wna16_zero_point_bits=(4, 8))), None
    ),
    "asymmetric 4 bits in 0.26": Case(
        context(checkpoint(quantized(scheme(symmetric=False))), vllm=engine(wna16_zero_point_bits=(4, 8))), None
    ),
    # Embeddings.
    "an embedding of 6 bits": Case(
        context(changed(checkpoint(), embed_tokens_bits=6)), "embedding-width", level="checkpoint",
        says="embed_tokens has 6-bit weights: vLLM's embedding kernel takes widths that divide 32 (2, 4, 8)",
    ),
    "an embedding of 6 bits as the slug declares it": Case(
        context(weights=Weights(format="compressed-tensors", repo="o/n", bits=6, embedding_bits=6)),
        "embedding-width", level="checkpoint", says="embed_tokens has 6-bit weights",
    ),
    "8 bits on a stock vLLM": Case(
        context(EMBEDDED, vllm=engine(quantized_embedding=False)), "embedding-overlay",
        says="vllm#54304), and e is stock there",
    ),
    "8 bits on a vLLM that is not known": Case(
        context(EMBEDDED, vllm=None), "embedding-overlay", "warn", "checkpoint", "without its quantization",
    ),
    "8 bits that the overlay does not read": Case(
        context(PACKED_OTHERWISE, vllm=engine(quantized_embedding=False)), "embedding-packing",
        says="embed_tokens has 8-bit weights of auto-round: stock vLLM builds",
    ),
    "8 bits that the overlay does not read, on a vLLM that is not known": Case(
        context(PACKED_OTHERWISE, vllm=None), "embedding-packing", "warn", "checkpoint",
        "cures that for compressed-tensors only",
    ),
    "8 bits that the overlay does not read, as the slug declares them": Case(
        context(
            weights=Weights(format="fp8", repo="o/n", bits=8, embedding_bits=8),
            vllm=engine(quantized_embedding=False),
        ),
        "embedding-packing", says="8-bit weights of fp8",
    ),
    "8 bits that a patched vLLM may read": Case(context(PACKED_OTHERWISE), None),
    "8 bits on a patched vLLM": Case(context(EMBEDDED), None),
    "8 bits on another family": Case(
        context(changed(checkpoint(), embed_tokens_bits=8), vllm=engine(quantized_embedding=False)), None
    ),
    "an embedding of 16 bits": Case(context(changed(checkpoint(**QWEN35), embed_tokens_bits=16), vllm=None), None),
    "an embedding that is not quantized": Case(
        context(checkpoint(**QWEN35), vllm=engine(quantized_embedding=False)), None
    ),
    # Targets.
    "plain targets beside an MTP head": Case(
        context(MTP_TARGETS), "plain-targets", "warn", "checkpoint",
        "targets lm_head, model.embed_tokens by plain name",
    ),
    "plain targets without an MTP head": Case(
        context(msgspec.structs.replace(MTP_TARGETS, mtp_layers=0)), None
    ),
    "targets of layers alone": Case(
        context(changed(checkpoint(mtp_layers=1), plain_targets=("model.layers.0.mlp.up_proj",))), None
    ),
    # Experts.
    "6-bit experts before 0.33": Case(
        context(MOE6, vllm=engine(version="0.32.1", moe_packed_widths=None)), "packed-experts",
        says="vLLM 0.32.1 refuses 6-bit experts",
    ),
    "6-bit experts of a vLLM that does not say its version": Case(
        context(MOE6, vllm=engine(version="unknown", moe_packed_widths=None)),
        "packed-experts", "warn", "checkpoint", "nobody has reported",
    ),
    "6-bit experts of a build without a release's number": Case(
        context(MOE6, vllm=engine(version="0.1.dev1", moe_packed_widths=None)),
        "packed-experts", "warn", "checkpoint", "nobody has reported",
    ),
    "6-bit experts where the code of an unknown version refuses them": Case(
        context(MOE6, vllm=engine(version="unknown", moe_packed_widths=(4, 8))), "packed-experts",
    ),
    "6-bit experts where the code refuses them": Case(
        context(MOE6, vllm=engine(moe_packed_widths=(4, 8))), "packed-experts", says="refuses 6-bit experts",
    ),
    "6-bit experts since": Case(
        context(MOE6), "packed-experts", "warn", "checkpoint", "nobody has reported 6-bit experts",
    ),
    "6-bit experts with no vLLM": Case(
        context(MOE6, vllm=None), "packed-experts", "warn", "checkpoint", "nobody has reported",
    ),
    "4-bit experts": Case(
        context(
            checkpoint(quantized(scheme(), method="compressed-tensors"), moe=True), vllm=engine(version="0.26.0")
        ),
        None,
    ),
    "AutoRound W4 experts": Case(context(checkpoint(moe=True), vllm=engine(version="0.26.0")), None),
    # Architecture and method.
    "an architecture that it does not list": Case(
        context(checkpoint(architecture="NewForCausalLM")), "architecture", "warn", "checkpoint",
        says="vLLM 0.33.0 does not list the architecture NewForCausalLM",
    ),
    "a list that cannot be read": Case(
        context(checkpoint(architecture="NewForCausalLM"), vllm=engine(models=None)), None
    ),
    "a method that vLLM does not know": Case(
        context(QUARK, vllm=engine(quantization_methods=("awq",)), weights=None), "quantization-method",
        says="vLLM 0.33.0 has no quantization method named quark",
    ),
    "a method that only we do not know": Case(
        context(QUARK), "quantization-method", "warn", "checkpoint", "the quantization method quark is not known",
    ),
    "a method that nobody was asked about": Case(
        context(QUARK, vllm=None), "quantization-method", "warn", "checkpoint", "quark is not known here",
    ),
    # Files.
    "files that cannot be read": Case(
        context(checkpoint_problem="/models/a/config.json: not JSON"), "checkpoint-unreadable", level="checkpoint",
        says="/models/a/config.json: not JSON",
    ),
    "a config without weights": Case(
        context(NO_FILES), "weights-missing", level="checkpoint", says="/models/a has no safetensors files",
    ),
    "a config without weights that are not wanted": Case(context(NO_FILES, flags={"load-format": "dummy"}), None),
    "a repository that is still to be fetched": Case(
        context(NO_FILES, weights=Weights(format="auto-round", repo="o/n", bits=4)), None
    ),
    "a checkpoint with its weights": Case(context(WITH_FILES), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_rule_fires_where_it_should_and_only_there(name: str) -> None:
    case = CASES[name]
    findings = [finding for finding in found(case.ctx) if not _of_the_stand_in(case, finding)]
    print(f"{name:<48} {'; '.join(f'{f.severity} {f.rule}' for f in findings) or 'nothing'}")
    if case.rule is None:
        assert findings == []
        return
    (finding,) = findings
    assert (finding.rule, finding.severity, finding.level) == (case.rule, case.severity, case.level)
    assert case.says in finding.message
    assert finding.subject == "weights"
    assert finding.fix
    assert not finding.message.endswith(".")


def _of_the_stand_in(case: Case, finding: Finding) -> bool:
    """A method of no slug's word is declared as another one here, which is told as well."""
    return case.rule == "quantization-method" and finding.rule == "slug-disagrees"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.rule and case.severity == "block"])
def test_force_passes_what_the_rig_refuses_and_never_what_the_checkpoint_is(name: str) -> None:
    case = CASES[name]
    findings = tuple(finding for finding in found(case.ctx) if finding.severity == "block")
    assert refusals(findings) == findings
    assert refusals(findings, force=True) == (findings if case.level == "checkpoint" else ())


def test_every_rule_has_a_case_that_fires() -> None:
    fired = {case.rule for case in CASES.values()}
    assert fired >= {
        "wna16-widths", "humming-missing", "humming-capability", "wna16-zero-points", "embedding-width",
        "embedding-overlay", "embedding-packing", "plain-targets", "packed-experts", "architecture",
        "quantization-method", "checkpoint-unreadable", "weights-missing",
    }  # fmt: skip
    assert len(RULES) == 11, "a new rule needs its cases here"


BF16 = checkpoint(quantized(method="none"))
DISAGREEMENTS: list[tuple[Checkpoint, dict[str, Any], str]] = [
    (checkpoint(), {"format": "gptq"}, "format gptq, found auto-round"),
    (checkpoint(), {"format": "bf16", "widths": []}, "format bf16, found auto-round"),
    (BF16, {"format": "fp8"}, "format fp8, found bf16"),
    (checkpoint(), {"widths": [], "bits": 8}, "8-bit, found 4-bit"),
    (checkpoint(quantized(scheme(), scheme(8))), {"widths": [], "bits": 4}, "4-bit, found 4, 8-bit"),
    (checkpoint(quantized(scheme(symmetric=False))), {"symmetric": True}, "symmetric, found the opposite"),
    (checkpoint(), {"symmetric": False}, "asymmetric, found the opposite"),
    (checkpoint(), {"group_size": 32}, "group size 32, found 128"),
    (checkpoint(), {"embedding_bits": 8}, "embeddings of 8 bits, found 16"),
    (EMBEDDED, {"embedding_bits": 4}, "embeddings of 4 bits, found 8"),
    (checkpoint(), {"moe": True}, "mixture of experts, found the opposite"),
    (checkpoint(moe=True), {"moe": False}, "dense, found the opposite"),
    (checkpoint(), {"vision": True}, "vision, found the opposite"),
    (checkpoint(vision=True), {"vision": False}, "no vision, found the opposite"),
    (checkpoint(), {"mtp": True}, "an MTP head, found none"),
    (checkpoint(), {"native_max_model_len": 4096}, "a context of 4,096, found 40,960"),
]


@pytest.mark.parametrize(("of", "words", "says"), DISAGREEMENTS, ids=[says for _, _, says in DISAGREEMENTS])
def test_what_the_slug_says_otherwise_than_the_files_is_told(
    of: Checkpoint, words: dict[str, Any], says: str
) -> None:
    (finding,) = found(context(of, weights=declared(of, **words)))
    assert (finding.rule, finding.severity) == ("slug-disagrees", "warn")
    assert finding.message == f"the slug declares {says}"
    assert refusals((finding,)) == ()


def test_all_that_differs_is_one_finding() -> None:
    (finding,) = found(context(checkpoint(), weights=declared(checkpoint(), bits=8, widths=[], moe=True, mtp=True)))
    assert finding.message == (
        "the slug declares 8-bit, found 4-bit; mixture of experts, found the opposite; an MTP head, found none"
    )


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (checkpoint(), {"widths": [], "bits": 4, "symmetric": True, "group_size": 128}),
        (checkpoint(), {"widths": []}),
        (checkpoint(mtp_layers=1), {}),
        (checkpoint(quantized(scheme(), scheme(group_size=32))), {"group_size": 64}),
        (checkpoint(max_model_len=None), {"native_max_model_len": 4096}),
        (BF16, {"format": "fp16"}),
        (BF16, {"bits": 16}),
        (EMBEDDED, {"embedding_bits": 8}),
    ],
)
def test_what_agrees_or_is_not_said_is_no_finding(of: Checkpoint, words: dict[str, Any]) -> None:
    assert found(context(of, weights=declared(of, **words))) == []


@pytest.mark.parametrize(
    ("fixture", "words"),
    [
        ("compressed-tensors-nvfp4", ("nvfp4", "compressed-tensors")),
        ("compressed-tensors-fp8", ("fp8", "compressed-tensors")),
        ("auto-round-nvfp4", ("nvfp4",)),
        ("auto-round-mxfp4", ("mxfp4",)),
        ("auto-round-w4", ("auto-round",)),
        ("compressed-tensors-int6-mixed", ("compressed-tensors",)),
        ("modelopt-fp8", ("fp8",)),
        ("nvfp4-beside", ("nvfp4",)),
        ("gpt-oss-mxfp4", ("mxfp4",)),
        ("bf16", ("bf16", "fp16")),
        ("fp16", ("fp16", "bf16")),
    ],
)
def test_packed_floats_go_by_their_own_name_too(fixture: str, words: tuple[str, ...]) -> None:
    assert formats_of(inspect(str(FIXTURES / fixture))) == words
