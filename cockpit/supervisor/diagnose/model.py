"""What vLLM does not make of a model: its architecture, its configuration, its tokenizer and templates."""

from __future__ import annotations

from cockpit.supervisor.diagnose.settings import in_use
from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, count, do, nearest, no_vision, reason, say, without

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


def _tokenizer_fixes(seen: Evidence) -> list[Fix]:
    newer = Fix(text="Use a vLLM with a newer transformers (version 5 saves TokenizersBackend).")
    named = Fix(
        text="Or put the class of the original model's tokenizer_config.json into the checkpoint's (tokenizer_class)."
    )
    remote = added("trust_remote_code", "If the folder brings Python code that you trust, add --trust-remote-code.")
    own = seen.groups.get("name") == "TokenizersBackend" or seen.arguments.get("trust_remote_code")
    return [newer, named] if own else [remote, newer, named]


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


def _image_fixes(seen: Evidence) -> list[Fix]:
    tokens = seen.number("tokens")
    longer = [] if tokens is None else [int(tokens) // 1024 * 1024 + 2048]
    return [
        *(Fix(text=f"Allow a context of {count(value)} tokens.", set={"max_model_len": value}) for value in longer),
        *no_vision(seen),
        Fix(text="Or allow smaller images: --mm-processor-kwargs with max_pixels, --limit-mm-per-prompt."),
    ]


def _derived_fixes(seen: Evidence) -> list[Fix]:
    most = seen.number("derived")
    fixes = []
    if most is not None and most >= 16:
        text = f"Start again with the model's own maximum, {count(most)} tokens."
        fixes.append(Fix(text=text, set={"max_model_len": int(most)}))
    return [*fixes, Fix(text="A longer context needs rope scaling (--hf-overrides) that the model was made for.")]


_UNREADABLE = (r"JSONDecodeError\b", r"UnicodeDecodeError\b", r"^KeyError: '(?:added_tokens|model|vocab|merges)'$")
"""What a file raises that is no tokenizer."""
_ROPE_FIXES = do(
    "Take rope_scaling as the model's card gives it (rope_type, factor, original_max_position_embeddings).",
    "Or leave it out of --hf-overrides: without it the context ends at the model's own maximum.",
)
_TOKENIZER_AGAIN = do(
    "Download the tokenizer's files again: a text that begins with `version https://git-lfs` only points at one.",
    "Or use a vLLM whose transformers and tokenizers are as new as the model.",
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
        id="image-over-context",
        patterns=(
            r"prompt \(length (?P<tokens>\d+)\)[^\n]{0,40} is longer than the maximum model length of (?P<most>\d+)"
            r".{0,200}multi-?modal",
        ),
        when=lambda seen: not seen.incident.after_ready,
        versions="0.6 to 0.33",
        explain=say(
            "The largest image or video of the model takes {tokens} tokens, and the context has {most}.",
            "The largest image or video of the model takes more tokens than the context has.",
        ),
        fixes=_image_fixes,
    ),
    Symptom(
        id="tokenizer-newer",
        patterns=(r"Tokenizer class (?P<name>\w+) does not exist or is not currently imported",),
        versions="0.6 to 0.33",
        explain=say(
            "The tokenizer's class {name} is unknown to this vLLM's transformers: the checkpoint was saved by a "
            "newer one, or brings the class along.",
            "The tokenizer's class is unknown to this vLLM's transformers: the checkpoint was saved by a newer one.",
        ),
        fixes=_tokenizer_fixes,
    ),
    Symptom(
        id="processor-missing",
        patterns=(
            r"does not appear to have a file named (?P<file>(?:video_)?(?:pre)?processor_config\.json)",
            r"Unrecognized (?:image|video|audio|feature|processing)? ?(?:processor|extractor|class) in \S+",
            r"Can't (?:load|instantiate) (?:the )?(?:image|video|audio|feature)? ?(?:processor|extractor) for",
            r"Invalid type of HuggingFace (?:image )?processor",
            r"Processor was not found",
            r"Processor(?:Fast)?\.__init__\(\) ",
            r"Failed to apply \w+Processor",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The model reads images or sound, and its folder lacks {file}.",
            "The model reads images or sound, and its folder has no processor that this vLLM can use.",
        ),
        fixes=do(
            "Copy preprocessor_config.json (and processor_config.json) of the original model into the folder.",
            Fix(text="Or leave the vision part out if you only send text.", set={"vision": "off"}),
        ),
    ),
    Symptom(
        id="chat-template-file",
        patterns=(
            r"supplied chat template (?:string )?\((?P<file>[^)\n]{1,200})\) "
            r"(?:appears path-like|looks like a file path)",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "There is no file {file} for --chat-template; vLLM's wheel does not bring its examples.",
            "There is no such file for --chat-template; vLLM's wheel does not bring its examples.",
        ),
        fixes=do(
            "Correct the path; the examples are in vLLM's repository (examples/) under the tag of the version.",
            without("chat_template", ": most checkpoints have a template"),
        ),
    ),
    Symptom(
        id="chat-template-broken",
        patterns=(r"jinja2\.exceptions\.(?P<what>(?:Template|Undefined|Security)\w+: [^\n]{1,160})",),
        versions="0.6 to 0.33",
        explain=say("The chat template is no valid Jinja: {what}.", "The chat template is no valid Jinja."),
        fixes=do("Use the template of the original model, or correct the line that the message names."),
    ),
    Symptom(
        id="config-broken",
        patterns=(r"config file at '(?P<path>[^'\n]{1,300})' is not a valid JSON file",),
        versions="0.2 to 0.33",
        explain=say("{path} is no valid JSON.", "The model's config.json is no valid JSON."),
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
        id="tokenizer-broken",
        patterns=_UNREADABLE,
        frames=r"^(?:tokenization_\w+|tokenizer_?\w*)\.py:",
        versions="0.10 to 0.33",
        explain=say(
            "A tokenizer file of the model (tokenizer.json, most likely) is cut off, or not what its name says."
        ),
        fixes=_TOKENIZER_AGAIN,
    ),
    Symptom(
        id="tokenizer-broken",
        patterns=(
            r"data did not match any variant of untagged enum \w+",
            r"Exception: (?:EOF while parsing|expected value at line)",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The tokenizer library cannot read tokenizer.json: the file is cut off, or newer than the library."
        ),
        fixes=_TOKENIZER_AGAIN,
    ),
    Symptom(
        id="tokenizer-missing",
        patterns=(
            r"failed to tokenize reasoning strings",
            r"Can't load (?:the )?tokenizer for",
            r"Couldn't instantiate the backend tokenizer",
            r"[Tt]okenizer file[^\n]{0,80}(?:does not exist|not found|missing)",
            r"(?:No such file or directory|not found).{0,100}tokenizer\.(?:json|model)",
            r"does not appear to have a file named tokenizer",
            r"tekken\.json",
            r"Converting from (?:SentencePiece|Tiktoken)[^\n]{0,40} failed",
            r"Failed to load the tokenizer",
            r"Found 0 files matching the pattern: [^\n]*tekken",
            r"Make sure that a Mistral tokenizer is present",
            r"No tokenizer files? found",
            r"^TypeError: not a string$",
        ),
        versions="0.10 to 0.33",
        explain=say("The model's folder has no usable tokenizer (tokenizer.json, tokenizer.model or tekken.json)."),
        fixes=do(
            "Copy the tokenizer files of the original model into the folder, or download it again: it may "
            "be partial.",
            "Or point --tokenizer at the original model.",
        ),
    ),
    Symptom(
        id="tool-parser",
        patterns=(
            r"invalid (?P<kind>tool call|reasoning) parser: ?(?P<name>[\w-]+)",
            r"(?P<kind>Tool|Reasoning) parser '(?P<name>[\w-]+)' not found",
            r"Tool parser could not locate",
            r"could not locate think start/end tokens",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "vLLM does not have the parser that the command names ({name}), or it does not fit the tokenizer.",
            "The parser that the command names is not there, or does not fit the tokenizer.",
        ),
        fixes=lambda seen: [
            *nearest(seen, "name"),
            Fix(text="Use a parser that this vLLM lists in the message, or leave the flag out."),
        ],
    ),
    Symptom(
        id="tool-parser",
        patterns=(r"--enable-auto-tool-choice requires --tool-call-parser",),
        versions="0.6 to 0.33",
        explain=say("--enable-auto-tool-choice needs the parser of the model's tool calls."),
        fixes=do(
            added("tool_call_parser", "Add --tool-call-parser with the parser that the model's card names."),
            without("enable_auto_tool_choice"),
        ),
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
