"""Tensors of a checkpoint that the model class has no place for, misses, or has in another shape."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Symptom
from cockpit.supervisor.diagnose.words import added, do, joined, no_draft, reason, say, without

_TENSOR = r"(?:qweight|qzeros|g_idx|scales|weight_(?:packed|shape|scale\w*|zero_point)|input_scale|zero_point)"
_LOADS = r":(?:\w*weight_loader\w*|load_weights|_load_(?!adapter)\w+|load_(?:row|column|merged|qkv)\w*)$"
"""Functions of vLLM's loaders, of which one is the last frame."""


def _absent(seen: Evidence) -> str:
    names = re.findall(r"'([^'\n]+\.\w+)'", seen.incident.text)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    first = f": {seen.groups['name']}{more}" if "name" in seen.groups else ""
    return f"The checkpoint lacks tensors that vLLM's class of the model needs{first}."


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="bitsandbytes-part",
        patterns=(r"torch\.Size\(\[\d{4,}, 1\]\)[^\n]{0,40}torch\.Size\(\[\d+, \d+\]\)",),
        versions="0.6 to 0.33",
        explain=say(
            "bitsandbytes packs every layer, and this vLLM makes a part of the model, such as its vision, unpacked."
        ),
        fixes=do("Upgrade vLLM.", "Or use a checkpoint in another 4-bit format (AWQ, AutoRound, GPTQ)."),
    ),
    Symptom(
        id="sparse-checkpoint",
        patterns=(r"'[^']*\.(?:bitmask|compressed|row_offsets)'",),
        frames=_LOADS,
        versions="0.6 to 0.33",
        explain=say(
            "The checkpoint's weights are sparse (2:4) and packed as such, which this vLLM does not read here."
        ),
        fixes=do("Use a dense checkpoint in another format (AutoRound, AWQ, GPTQ, FP8).", "Or another vLLM."),
    ),
    Symptom(
        id="quantized-lm-head",
        patterns=(
            r"lm_head\.?(?:scales|weight_scale|qzeros|g_idx)",
            r"(?:exception|error|fail\w*) while loading the quantized lm_head",
            r"lm_head\.?(?:qweight|weight_packed)",
        ),
        versions="0.18 to 0.33",
        explain=say("The checkpoint's lm_head is quantized under a name that this vLLM's loader does not map."),
        fixes=do("Use a checkpoint whose lm_head is bf16."),
    ),
    Symptom(
        id="quantized-embedding",
        patterns=(
            r"There is no module or parameter named '[^']*embed_tokens\."
            r"(?:weight_packed|weight_scale|qweight|scales)[^']*'",
            r"KeyError: '[^']*embed_tokens\.(?:weight_packed|weight_scale|qweight|scales)",
        ),
        versions="0.26 to 0.33",
        explain=say(
            "The checkpoint's embeddings are quantized, and this vLLM builds that layer without the quantization."
        ),
        fixes=do(
            "Start it through the cockpit with the quantized-embedding overlay, or use a checkpoint with "
            "bf16 embeddings."
        ),
    ),
    Symptom(
        id="moe-router-quantized",
        patterns=(
            rf"KeyError: '(?P<name>[^']*\.(?:experts|gate|router|mlp|attn|compressor)[^']*{_TENSOR})'",
            rf"KeyError: '(?P<name>[^']*{_TENSOR})'",
            rf"no module or parameter named '(?P<name>[^']*{_TENSOR})'",
        ),
        versions="0.9 to 0.33",
        explain=say(
            "The checkpoint has a tensor {name} that this vLLM's model class has no place for.",
            "The checkpoint has a quantized tensor that this vLLM's model class has no place for.",
        ),
        fixes=do(
            "Use another export of the checkpoint (router gate and small layers in bf16), or a vLLM that "
            "its card names.",
        ),
    ),
    Symptom(
        id="layer-unknown",
        patterns=(r"^KeyError: '(?P<name>[\w.]+\.(?:attn|linear_attn|mixer|mamba|indexer|conv)(?:\.\d+)?)'",),
        versions="0.8 to 0.33",
        explain=say(
            "vLLM has laid out no KV cache for {name}, and its model asks for it: a fault of this version with what "
            "the command adds (pipeline parallel, a draft, a KV connector).",
            "vLLM has laid out no KV cache for a layer that its model asks for: a fault of this version.",
        ),
        fixes=joined(
            do(without("pipeline_parallel_size", ": tensor parallel alone takes another way")),
            no_draft,
            do(without("kv_transfer_config"), "Try another release of vLLM."),
        ),
    ),
    Symptom(
        id="layer-unquantized",
        patterns=(
            r"'(?P<layer>\w*(?:Linear|FusedMoE|Embedding))' object has no attribute "
            r"'(?P<part>weight|bias|input_scale|weight_scale\w*|qweight)'",
        ),
        versions="0.3 to 0.33",
        explain=say(
            "This vLLM's class of the model reads {part} of a {layer}, which a layer of this quantization does not "
            "have: the class and the checkpoint's format do not go together in this version.",
            "This vLLM's class of the model and the checkpoint's quantization do not go together.",
        ),
        fixes=do(
            "Upgrade vLLM, or use the release that the checkpoint's card names.",
            "Or use the model in another format (FP8, AWQ, GPTQ, AutoRound, or unquantized).",
        ),
    ),
    Symptom(
        id="adapter-unmerged",
        patterns=(
            r"KeyError: '(?P<name>[^'\n]*(?:base_model\.model|\.base_layer|lora_[AB])\b[^'\n]*)'",
            r"no module or parameter named '(?P<name>[^'\n]*(?:base_model|\.base_layer|lora_[AB])\b[^'\n]*)'",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The folder holds a model with its LoRA adapter beside the weights ({name}), as training saves it, and "
            "is no plain checkpoint.",
            "The folder holds a model with its LoRA adapter beside the weights, and is no plain checkpoint.",
        ),
        fixes=do(
            "Merge the adapter (peft: merge_and_unload, save_pretrained), and serve the merged folder.",
            "Or serve the base model with --enable-lora --lora-modules NAME=FOLDER.",
        ),
    ),
    Symptom(
        id="text-class",
        patterns=(
            r"no module or parameter named '(?P<name>(?:model\.)?(?:language_model|vision_tower|vision_model|visual"
            r"|multi_modal_projector|audio_tower)[\w.]*)' in (?P<model>\w+)ForCausalLM",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "config.json names the text class {model}ForCausalLM, and the weights are those of the whole model with "
            "its images or sound ({name}).",
            "config.json names a text class, and the weights are those of the whole model with its images or sound.",
        ),
        fixes=do(
            "Put the original model's config.json (its architecture ends in ForConditionalGeneration) and its "
            "processor files beside the weights.",
            "Or save the text part alone under its own names, and serve that.",
        ),
    ),
    Symptom(
        id="tied-head",
        patterns=(r"^KeyError: 'lm_head\.weight'",),
        versions="0.3 to 0.33",
        explain=say(
            "The checkpoint saves lm_head.weight, and this vLLM's class takes the embeddings for it "
            "(tie_word_embeddings)."
        ),
        fixes=do(
            "Upgrade vLLM: later releases pass over that tensor.",
            "Or save the checkpoint without lm_head.weight; if training untied it, set tie_word_embeddings to false "
            "in config.json.",
        ),
    ),
    Symptom(
        id="bitsandbytes-flag",
        patterns=(r"KeyError: '(?P<name>[^'\n]+\.(?:absmax|quant_map|quant_state[\w.]*|nested_\w+|SCB))'",),
        versions="0.5 to 0.33",
        explain=say(
            "The checkpoint is packed by bitsandbytes ({name}), and this vLLM reads it as if it was not.",
            "The checkpoint is packed by bitsandbytes, and this vLLM reads it as if it was not.",
        ),
        fixes=do(
            added("quantization=bitsandbytes"),
            added("load_format=bitsandbytes"),
            "Or use a checkpoint in another 4-bit format (AutoRound, AWQ, GPTQ).",
        ),
    ),
    Symptom(
        id="checkpoint-mismatch",
        patterns=(r"KeyError: '(?P<name>[^'\n]*experts\.w(?:13|2)_(?:weight|bias))'",),
        when=lambda seen: seen.arguments.get("quantization") is not None or not seen.has_head,
        versions="0.6 to 0.33",
        explain=say(
            "The checkpoint has {name} unquantized, and this vLLM made all experts for quantized weights: it does "
            "not heed the layers that the checkpoint leaves out (modules_to_not_convert, ignore).",
            "The checkpoint has experts unquantized, and this vLLM made all of them for quantized weights.",
        ),
        fixes=do(
            "Upgrade vLLM, or use the release that the model's card names.",
            "Or use a checkpoint whose experts are all quantized.",
        ),
    ),
    Symptom(
        id="no-classifier-head",
        patterns=(r"not initialized from\s+checkpoint: \{[^}\n]{0,200}'(?:score|classifier)\.(?:weight|bias)'",),
        versions="0.9 to 0.33",
        explain=say("The command makes a classifier of the model, and the checkpoint has no head for it (score)."),
        fixes=do(
            without("convert", ": a language model is served as one"),
            "An original Qwen3 reranker gets its head by --hf-overrides with classifier_from_token and "
            "is_original_qwen3_reranker, as its card says.",
        ),
    ),
    Symptom(
        id="checkpoint-mismatch",
        patterns=(r"weights were not initialized from\s+checkpoint: \{'(?P<name>[^'\n]+)'",),
        versions="0.6 to 0.33",
        explain=_absent,
        fixes=do(
            "Check that all files of the weights are there (`cockpit inspect FOLDER`): a training run may have saved "
            "only a part, or under other names.",
            "Check that config.json is the one that was saved with these weights, or use a vLLM that the model's "
            "card names.",
        ),
    ),
    Symptom(
        id="weights-loader",
        patterns=(r"^\S",),
        frames=r":(?:fastsafetensors|runai_\w+|instanttensor|tensorizer)_weights_iterator$",
        versions="0.9 to 0.33",
        explain=lambda seen: (
            f"The fast loader that --load-format asks for failed, not the checkpoint: {reason(seen).rstrip('. ')}."
        ),
        fixes=do(
            without("load_format", ": the plain loader reads the same files"),
            "Upgrade the loader's package; GPUDirect Storage needs drivers and a file system that have it.",
        ),
    ),
    Symptom(
        id="checkpoint-mismatch",
        patterns=(
            r"There is no module or parameter named '(?P<name>[^']+)' in (?P<model>\w+)",
            r"weights were not initialized from\s+checkpoint",
            r"size mismatch for (?P<name>\S+)",
            r"Attempted to load weight \(torch\.Size",
            r"KeyError: '(?P<name>(?:model|language_model|layers|lm_head|visual|mtp)\.[^']+)'",
            r"AssertionError: (?:param_data|Tried to load weights of size)",
            r"Trying to load weights of size",
            r"start \(\d+\) \+ length \(\d+\) exceeds dimension size",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The checkpoint does not match the model class: {name} has no place or another shape.",
            "The checkpoint does not match the model class: tensors are missing, too many or of another shape.",
        ),
        fixes=do("Check that config.json belongs to the weights, or use a vLLM that the model's card names."),
    ),
    Symptom(
        id="checkpoint-mismatch",
        patterns=(
            r"The size of tensor a \(\d+\) must match the size of tensor b",
            r"The expanded size of the tensor \(\d+\) must match the existing size",
            r"^AssertionError(?::?\s*$|: )",
        ),
        frames=_LOADS,
        versions="0.2 to 0.33",
        explain=say(
            "A tensor of the checkpoint has another shape than the model class has for it, or its share on a GPU."
        ),
        fixes=do(
            "Check that config.json belongs to the weights; with tensor parallel try one GPU, where nothing is cut.",
            "Or use a vLLM that the model's card names.",
        ),
    ),
)
