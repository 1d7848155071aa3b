"""What a checkpoint's folder lacks: a tokenizer, a chat template, weights that vLLM reads."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.checkpoint.types import OwnCode
from cockpit.rig.version import version_numbers
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding

_PACKERS = ("auto-round", "gptq", "awq")
_TOKENIZERS_BACKEND = (5,)
_NO_DUAL_CHUNK = (0, 11)
_OTHER_CONFIG = frozenset({"trust-remote-code", "hf-overrides", "hf-config-path", "config-format", "revision"})
"""Flags that give leave, or with which another config is read."""
_OTHER_TOKENIZER = frozenset(
    {"trust-remote-code", "tokenizer", "tokenizer-mode", "tokenizer-revision", "skip-tokenizer-init", "revision"}
)
_PLAIN = frozenset({"PreTrainedTokenizer", "PreTrainedTokenizerFast", "PythonBackend", "TokenizersBackend"})
"""Classes of transformers that belong to no model."""
_READ_IT = "Read that code and, if you trust it, set trust-remote-code: true under flags."


def _only_config(ctx: Context) -> bool:
    """Whether the folder has no weights that would be loaded: then another rule speaks."""
    sizes = None if ctx.checkpoint is None else ctx.checkpoint.sizes
    return (sizes is None or sizes.estimated) and ctx.slug.flags.get("load-format") != "dummy"


def tokenizer(ctx: Context) -> Iterator[Finding]:
    """Without its files transformers gives an empty vocabulary, and vLLM dies elsewhere or answers nonsense."""
    beside = None if ctx.checkpoint is None else ctx.checkpoint.beside
    elsewhere = {"tokenizer", "skip-tokenizer-init"} & ctx.slug.flags.keys()
    if beside is None or elsewhere or ctx.checkpoint is None or _only_config(ctx):
        return
    if beside.tokenizer_fault is not None:
        yield Finding(
            rule="tokenizer-broken",
            severity="block",
            subject="weights",
            message=f"{ctx.checkpoint.folder}/tokenizer.json {beside.tokenizer_fault}",
            fix="Download it again.",
        )
    if beside.tokenizer:
        return
    yield Finding(
        rule="tokenizer-missing",
        severity="block",
        subject="weights",
        message=f"{ctx.checkpoint.folder} has no tokenizer (tokenizer.json, tokenizer.model or tekken.json)",
        fix="Copy it from the original model, or name that model with `tokenizer` under flags.",
    )


def tokenizer_release(ctx: Context) -> Iterator[Finding]:
    """A tokenizer that transformers 5 saved, for a vLLM that has transformers 4."""
    beside, engine = None if ctx.checkpoint is None else ctx.checkpoint.beside, ctx.engine
    elsewhere = {"tokenizer", "skip-tokenizer-init", "tokenizer-mode"} & ctx.slug.flags.keys()
    if ctx.checkpoint is None or beside is None or beside.tokenizer_of_5 is None or engine is None or elsewhere:
        return
    installed = version_numbers(engine.transformers or "")
    if installed and installed < _TOKENIZERS_BACKEND:
        yield Finding(
            rule="tokenizer-newer",
            severity="block",
            subject="weights",
            message=f"{ctx.checkpoint.folder}/tokenizer_config.json {beside.tokenizer_of_5}, which transformers "
            f"{engine.transformers} of {engine.id} cannot read: transformers 5 saved it",
            fix="Use a vLLM with transformers 5, or name the original model with `tokenizer` under flags.",
            level="rig",
        )


def own_config(ctx: Context) -> Iterator[Finding]:
    """A config class that only the checkpoint's own code defines: without leave to run it the boot ends.

    Mirrors HFConfigParser.parse of vLLM's transformers_utils/config.py and AutoConfig.from_pretrained. A plugin of
    vLLM may bring the class, which cannot be seen: no block.
    """
    checkpoint, engine, flags = ctx.checkpoint, ctx.engine, ctx.slug.flags
    code = None if checkpoint is None or checkpoint.beside is None else checkpoint.beside.config_code
    if code is None or engine is None or not engine.config_types or _OTHER_CONFIG & flags.keys():
        return
    kind, name = code
    if kind in engine.config_types:
        return
    yield Finding(
        rule="remote-code",
        severity="warn",
        subject="weights",
        message=f"neither vLLM {engine.version} nor its transformers knows the model type {kind}: "
        f"its config class is code of the checkpoint ({name}), which vLLM runs only with trust-remote-code",
        fix=f"Use a newer vLLM. Or: {_READ_IT[:1].lower()}{_READ_IT[1:]}",
        level="rig",
    )


def own_tokenizer(ctx: Context) -> Iterator[Finding]:
    """A tokenizer that only the checkpoint's own code defines: without leave to run it the boot ends.

    Mirrors AutoTokenizer.from_pretrained of transformers 5.19, which takes a class of its own for a model type or a
    name that it knows, and get_tokenizer of vLLM's tokenizers/registry.py.
    """
    checkpoint, engine = ctx.checkpoint, ctx.engine
    own = None if checkpoint is None or checkpoint.beside is None else checkpoint.beside.tokenizer_code
    if checkpoint is None or own is None or engine is None or _OTHER_TOKENIZER & ctx.slug.flags.keys():
        return
    if engine.tokenizers is None or _is_known(own, checkpoint.model_type, {*engine.tokenizers, *_PLAIN}):
        return
    yield Finding(
        rule="remote-code",
        severity="warn",
        subject="weights",
        message=f"neither vLLM {engine.version} nor its transformers has a tokenizer for the model type "
        f"{checkpoint.model_type}: it is code of the checkpoint ({own.code}), which runs only with trust-remote-code",
        fix=_READ_IT,
        level="rig",
    )


def own_processor(ctx: Context) -> Iterator[Finding]:
    """A processor of images that only the checkpoint's own code defines, as AutoProcessor.from_pretrained sees it.

    Most vision models of vLLM make their own and never ask for it: which do, their sources alone tell.
    """
    checkpoint, engine = ctx.checkpoint, ctx.engine
    own = None if checkpoint is None or checkpoint.beside is None else checkpoint.beside.processor_code
    if checkpoint is None or own is None or engine is None or "trust-remote-code" in ctx.slug.flags:
        return
    if not checkpoint.vision or ctx.values.get("vision") == "off" or engine.processors is None:
        return
    if not _is_known(own, checkpoint.model_type, set(engine.processors)):
        yield Finding(
            rule="remote-code",
            severity="note",
            subject="weights",
            message=f"its processor of images is code of the checkpoint ({own.code}): where vLLM {engine.version} "
            f"has none of its own for {checkpoint.model_type}, that runs only with trust-remote-code",
            fix=_READ_IT,
            level="rig",
        )


def _is_known(own: OwnCode, model_type: str, names: set[str]) -> bool:
    """Whether a library has a class for the model type, or one that is called as the file says; fast or not."""
    return model_type in names or (own.otherwise or "").removesuffix("Fast") in {
        n.removesuffix("Fast") for n in names
    }


def chat_template(ctx: Context) -> Iterator[Finding]:
    """A server without one boots, and answers every chat request with 400."""
    beside = None if ctx.checkpoint is None else ctx.checkpoint.beside
    if beside is None or beside.chat_template is not False or "chat-template" in ctx.slug.flags:
        return
    if not beside.tokenizer or _only_config(ctx):
        return
    yield Finding(
        rule="chat-template-missing",
        severity="warn",
        subject="weights",
        message="the checkpoint has no chat template: /v1/chat/completions will answer 400, /v1/completions works",
        fix="Serve the instruction-tuned model, or name a template with `chat-template` under flags.",
    )


def gguf(ctx: Context) -> Iterator[Finding]:
    """A folder whose weights are GGUF files."""
    checkpoint = ctx.checkpoint
    beside = None if checkpoint is None else checkpoint.beside
    if checkpoint is None or beside is None or not beside.gguf:
        return
    if checkpoint.sizes is not None and not checkpoint.sizes.estimated:
        return
    yield Finding(
        rule="gguf",
        severity="block",
        subject="weights",
        message=f"{checkpoint.folder} has its weights as GGUF, which vLLM reads with a plugin and for few models",
        fix="Take a safetensors checkpoint of 4 bits, or serve this one with llama.cpp.",
    )


def dual_chunk(ctx: Context) -> Iterator[Finding]:
    """Qwen's classes hand it on to the attention, whose backends know nothing of it since 0.11."""
    checkpoint, engine = ctx.checkpoint, ctx.engine
    if checkpoint is None or engine is None or not checkpoint.dual_chunk:
        return
    if checkpoint.model_type.startswith(("qwen2", "qwen3")) and version_numbers(engine.version) >= _NO_DUAL_CHUNK:
        yield Finding(
            rule="dual-chunk",
            severity="block",
            subject="weights",
            message=f"config.json asks for dual chunk attention, which vLLM {engine.version} has no backend for",
            fix="Remove dual_chunk_attention_config from config.json: the context ends at the model's native length.",
            level="rig",
        )


def quantized_head(ctx: Context) -> Iterator[Finding]:
    """A packed lm_head under the name that a vision model gives it is not found by the loader."""
    checkpoint = ctx.checkpoint
    if checkpoint is None or checkpoint.quantization.method not in _PACKERS:
        return
    bits = checkpoint.quantization.lm_head_bits
    if bits is None or bits >= 16 or not checkpoint.vision:
        return
    yield Finding(
        rule="quantized-lm-head",
        severity="warn",
        subject="weights",
        message=f"lm_head has {bits}-bit weights in a vision model: vLLM may look for it under another name and die",
        fix="Use a checkpoint whose lm_head is not quantized.",
    )


RULES = (
    tokenizer,
    tokenizer_release,
    own_config,
    own_tokenizer,
    own_processor,
    chat_template,
    gguf,
    dual_chunk,
    quantized_head,
)
"""In the order in which their findings are shown."""
