"""What vLLM does not make of a model: its architecture, its configuration, its code."""

from __future__ import annotations

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, count, do, reason, say, without

_TEXT_ONLY = r"architectures \[.*?(?P<name>Qwen3_5\w*ForCausalLM|\w*(?:VL|_5|_6)\w*ForCausalLM)"


_SINCE = {"qwen3_5": "0.17"}
"""First vLLM of a model family, by the beginning of its model type (public reports)."""


def _newer_engine(seen: Evidence) -> list[Fix]:
    kind = seen.groups.get("type", "")
    since = next((version for name, version in _SINCE.items() if kind.startswith(name)), None)
    known = "" if since is None else f" to {since} or later"
    then = "then the transformers that it asks for: `cockpit engines` lists what is installed."
    text = f"Upgrade vLLM first{known}, {then}"
    return [Fix(text=text)]


def _plugin(seen: Evidence) -> list[Fix]:
    if "plugin" in seen.groups:
        return [Fix(text=f"It has moved out of vLLM: install the plugin of {seen.groups['plugin']}.")]
    if "until" in seen.groups:
        return [Fix(text=f"Use vLLM {seen.groups['until']}, the last one that has it.")]
    return []


def _over_derived(seen: Evidence) -> str:
    wanted, most = seen.number("wanted"), seen.number("derived")
    if wanted is None or most is None:
        return "The context is longer than the checkpoint states."
    return f"The context of {count(wanted)} tokens is longer than the {count(most)} that the checkpoint states."


def _derived_fixes(seen: Evidence) -> list[Fix]:
    most = seen.number("derived")
    fixes = []
    if most is not None and most >= 16:
        text = f"Start again with the model's own maximum, {count(most)} tokens."
        fixes.append(Fix(text=text, set={"max_model_len": int(most)}))
    return [*fixes, Fix(text="A longer context needs rope scaling (--hf-overrides) that the model was made for.")]


_ROPE_FIXES = do(
    "Take rope_scaling as the model's card gives it (rope_type, factor, original_max_position_embeddings).",
    "Or leave it out of --hf-overrides: without it the context ends at the model's own maximum.",
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        id="transformers-too-old",
        patterns=(
            r"has model type [`'\"]?(?P<type>[\w.-]+)[`'\"]? but Transformers does not recognize",
            r"model type [`'\"](?P<type>[\w.-]+)[`'\"].{0,80}not recogni[sz]e",
            r"KeyError: '(?P<type>"
            r"(?:qwen|gemma|glm|llama|mistral|deepseek|minimax|gpt_oss|kimi|ernie|granite|phi|step)[\w.]{0,40})'$",
            r"requires? transformers ?(?:>=|version)",
            r"`rope_scaling` must be a dictionary with (?:with )?two fields",
            r"cannot import name '\w+' from 'transformers",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "This vLLM's transformers does not know the model type {type}: the model family is newer than "
            "the engine.",
            "This vLLM's transformers does not know the model: the model family is newer than the engine.",
        ),
        fixes=_newer_engine,
    ),
    Symptom(
        id="model-version",
        patterns=(r"only supports versions? (?P<known>[\d., ]{1,60}\d)\. Got version: \(?(?P<has>\d[\d., ]*)",),
        versions="0.5 to 0.33",
        explain=say(
            "This vLLM's class knows versions {known} of the model, and the checkpoint is of version {has}, newer "
            "than this vLLM.",
            "The checkpoint is of a version of the model that is newer than this vLLM.",
        ),
        fixes=do("Upgrade vLLM."),
    ),
    Symptom(
        id="rope-scaling",
        patterns=(r"^AssertionError\s*$",),
        frames=r":_get_and_verify_max_len$",
        versions="0.4 to 0.6",
        explain=say(
            "The rope scaling of config.json has other names than this vLLM reads: the model is newer than it."
        ),
        fixes=do("Upgrade vLLM, with the transformers that it asks for."),
    ),
    Symptom(
        id="rope-scaling",
        patterns=(r"^KeyError: '(?P<key>type|rope_type)'",),
        frames=r":_get_and_verify_max_len$",
        versions="0.4 to 0.33",
        explain=say(
            "The rope scaling of config.json, or of --hf-overrides, has no {key}, which this vLLM reads.",
            "The rope scaling of config.json, or of --hf-overrides, lacks a name that this vLLM reads.",
        ),
        fixes=do(
            "Give it in --hf-overrides as the model's card has it, or upgrade vLLM: older ones read other names "
            "(type, rope_type) than newer checkpoints have.",
        ),
    ),
    Symptom(
        id="rope-scaling",
        patterns=(
            r"`?rope_(?:scaling|parameters)`?(?:'s)? (?:must|should) (?:be|have)",
            r"[Mm]issing required keys in `?rope_",
            r"(?:Unknown|Invalid|Unsupported) (?:RoPE|rope) (?:scaling )?type",
        ),
        versions="0.4 to 0.33",
        explain=lambda seen: f"The rope scaling of the model, or of --hf-overrides, is not whole: {reason(seen)}.",
        fixes=_ROPE_FIXES,
    ),
    Symptom(
        id="rope-scaling",
        patterns=(r"^KeyError: '(?P<name>\w+)'", r"^(?:Value|Type|Attribute)Error: "),
        frames=r":(?:get_rope|_?(?:validate|patch|compute|get|standardize)_\w*rope\w*|rope_\w*validation)$",
        versions="0.4 to 0.33",
        explain=say(
            "The rope scaling of the model, or of --hf-overrides, lacks {name}.",
            "The rope scaling of the model, or of --hf-overrides, is not whole.",
        ),
        fixes=_ROPE_FIXES,
    ),
    Symptom(
        id="transformers-backend",
        patterns=(r"^AttributeError: ", r"^TypeError: ", r"^KeyError: ", r"^NotImplementedError: "),
        when=lambda seen: "/models/transformers" in seen.incident.modules,
        versions="0.8 to 0.33",
        explain=lambda seen: (
            "This vLLM has no class of its own for the model and takes that of transformers, with which it fails: "
            f"{reason(seen).rstrip('. ')}."
        ),
        fixes=do(
            "Use a vLLM that has a class for the model: a newer one for a new model, an older one for a model whose "
            "class went (Mllama after 0.10).",
            without("pipeline_parallel_size", ": not every model of transformers can be split so"),
        ),
    ),
    Symptom(
        id="pooling-runner",
        patterns=(r"'(?P<model>\w+)' object has no attribute 'pooler'",),
        versions="0.6 to 0.10",
        explain=say(
            "A client asks for embeddings or scores, and vLLM runs {model} as a model that writes text.",
            "A client asks for embeddings or scores, and vLLM runs the model as one that writes text.",
        ),
        fixes=do(
            added("runner=pooling", "Start it with --runner pooling (--task embed or --task score before 0.10)."),
            "A reranker that is a language model (Qwen3-Reranker) needs the --hf-overrides of its card as well, and "
            "vLLM 0.9.2 or later.",
        ),
    ),
    Symptom(
        id="arch-failed-inspect",
        patterns=(
            r"failed to be inspected",
            r"Error in inspecting model architecture",
            r"architectures \['(?P<name>\w+)'\] are not supported for now\..*?'(?P=name)'",
        ),
        versions="0.6 to 0.33",
        reports=True,
        explain=say(
            "vLLM knows the architecture, but the process that looks at its class failed: an import error beside it, "
            "too little RAM, or several servers starting at once."
        ),
        fixes=do("Look for the traceback beside this line in the log.", "Start servers one after another."),
    ),
    Symptom(
        id="text-only-arch",
        patterns=(_TEXT_ONLY + r".{0,200}not supported for now", r"architectures \['(?P<name>Qwen3_5\w*ForCausalLM)"),
        versions="0.17 to 0.33",
        explain=say(
            "This vLLM has no text-only class {name}; it serves the family by its multimodal class.",
            "This vLLM has no text-only class for the family; it serves it by its multimodal class.",
        ),
        fixes=do(
            "Use a newer vLLM.",
            "Or name the multimodal class in the checkpoint's config.json (architectures: "
            "…ForConditionalGeneration) and "
            "serve it with --language-model-only.",
        ),
    ),
    Symptom(
        id="gguf",
        patterns=(
            r"GGUF model with architecture (?P<name>[\w-]+) is not supported",
            r"Unknown gguf model_type: (?P<name>[\w-]+)",
            r"^ValueError: Architecture (?P<name>[\w-]+) not supported$",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "vLLM does not read GGUF files of {name} models.",
            "vLLM does not read this GGUF file.",
        ),
        fixes=do(
            "Use a safetensors checkpoint: AutoRound, AWQ or GPTQ for 4 bits, FP8 for 8.",
            "Or serve the GGUF file with llama.cpp.",
        ),
    ),
    Symptom(
        id="arch-unsupported",
        patterns=(
            r"Model architectures \[(?P<name>[^\]]*)\] are not supported for now",
            r"(?P<name>\w+For\w+) has no vLLM implementation",
            r"Cannot find model module\. '(?P<name>\w+)' is not a registered model",
            r"No model architectures are specified",
            r"was supported in vLLM until v(?P<until>[\d.]+)",
            r"Model architecture (?P<name>\w+) is not supported in-tree anymore\. Please install the plugin at "
            r"(?P<plugin>\S+)",
        ),
        versions="0.2 to 0.33",
        explain=say(
            "This vLLM has no model class for {name}.",
            "This vLLM has no model class for the checkpoint's architecture.",
        ),
        fixes=lambda seen: [
            *_plugin(seen),
            Fix(
                text="Use a vLLM that knows the architecture (its release notes name new ones), or the engine the "
                "model's card names."
            ),
            Fix(
                text="Check that config.json is the model's own: an adapter or a wrong folder has another "
                "architecture."
            ),
        ],
    ),
    Symptom(
        id="max-len-over-derived",
        patterns=(
            r"max_model_len \((?P<wanted>[\d,]+)\) is greater than the derived max_model_len"
            r" \((?:max_position_embeddings|[\w ]+)=(?P<derived>[\d.,]+)",
            r"is greater than the derived max_model_len",
        ),
        versions="0.4 to 0.33",
        explain=_over_derived,
        fixes=_derived_fixes,
    ),
    Symptom(
        id="config-broken",
        patterns=(
            r"config file at '(?P<path>[^'\n]{1,300})' is not a valid JSON file",
            r"validation errors? for ModelConfig\b.{0,60}"
            r"(?:Expecting |Extra data|Unterminated string|Invalid control)[^\n]{0,60}: line \d+ column \d+",
        ),
        versions="0.2 to 0.33",
        explain=say("{path} is no valid JSON.", "A JSON file of the model is empty, cut off or no JSON."),
        fixes=do("Correct the file, or download it again; `cockpit inspect FOLDER` names the place."),
    ),
    Symptom(
        id="config-broken",
        patterns=(r"num_heads \((?P<heads>\d+)\) is not divisible by num_kv_heads \((?P<kv>\d+)\)",),
        when=lambda seen: in_use("tensor_parallel", seen) == 1,
        versions="0.6 to 0.33",
        explain=say(
            "config.json gives {heads} attention heads and {kv} KV heads, which do not divide: it is another's.",
            "config.json gives attention and KV heads that do not divide: it is another's.",
        ),
        fixes=do("Take the original model's config.json."),
    ),
    Symptom(
        id="trust-remote-code",
        patterns=(r"^EOFError: EOF when reading a line",),
        frames=r":resolve_trust_remote_code$",
        versions="any",
        explain=say("The model brings Python code of its own, and nobody is there to answer whether it may run."),
        fixes=do(added("trust_remote_code", "If you trust its authors, read the code and add --trust-remote-code.")),
    ),
    Symptom(
        id="trust-remote-code",
        patterns=(
            r"[Pp]lease (?:pass|set) the (?:argument|option) `?trust_remote_code",
            r"contains custom code which must be executed",
            r"set the option `trust_remote_code=True`",
            r"consider setting `trust_remote_code=True`",
        ),
        versions="any",
        explain=say("The model brings Python code of its own, which runs only when it is allowed to."),
        fixes=do(added("trust_remote_code", "If you trust its authors, read the code and add --trust-remote-code.")),
    ),
    Symptom(
        id="config-broken",
        patterns=(r"JSONDecodeError: (?P<what>[^\n]{1,120})",),
        versions="any",
        explain=say(
            "A JSON file of the model, or the JSON of a flag, is empty, cut off or no JSON: {what}.",
            "A JSON file of the model, or the JSON of a flag, is empty, cut off or no JSON.",
        ),
        fixes=do("Download the file again, or correct it; a flag's JSON goes into single quotes."),
    ),
)
