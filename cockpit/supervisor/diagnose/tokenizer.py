"""What stands between a model and its text: tokenizers, templates, processors of images and sound, parsers."""

from __future__ import annotations

import re

from cockpit.supervisor.diagnose.types import Evidence, Fix, Symptom
from cockpit.supervisor.diagnose.words import added, count, do, nearest, no_vision, reason, say, without


def _tokenizer_fixes(seen: Evidence) -> list[Fix]:
    newer = Fix(text="Use a vLLM with a newer transformers (version 5 saves TokenizersBackend).")
    named = Fix(
        text="Or put the class of the original model's tokenizer_config.json into the checkpoint's (tokenizer_class)."
    )
    remote = added("trust_remote_code", "If the folder brings Python code that you trust, add --trust-remote-code.")
    own = seen.groups.get("name") == "TokenizersBackend" or seen.arguments.get("trust_remote_code")
    return [newer, named] if own else [remote, newer, named]


def _image_fixes(seen: Evidence) -> list[Fix]:
    tokens = seen.number("tokens")
    longer = [] if tokens is None else [int(tokens) // 1024 * 1024 + 2048]
    return [
        *(Fix(text=f"Allow a context of {count(value)} tokens.", set={"max_model_len": value}) for value in longer),
        *no_vision(seen),
        Fix(text="Or allow smaller images: --mm-processor-kwargs with max_pixels, --limit-mm-per-prompt."),
    ]


_UNREADABLE = (r"JSONDecodeError\b", r"UnicodeDecodeError\b", r"^KeyError: '(?:added_tokens|model|vocab|merges)'$")
"""What a file raises that is no tokenizer."""
_TOKENIZER_AGAIN = do(
    "Download the tokenizer's files again: a text that begins with `version https://git-lfs` only points at one.",
    "Or use a vLLM whose transformers and tokenizers are as new as the model.",
)


def _of_reasoning(seen: Evidence) -> bool:
    return re.search(r"(?i)reasoning|think", seen.incident.text + seen.incident.modules) is not None


def _other_model(seen: Evidence) -> str:
    kind = "reasoning" if _of_reasoning(seen) else "tool call"
    name = seen.arguments.get("reasoning_parser" if _of_reasoning(seen) else "tool_call_parser")
    called = f" {name}" if isinstance(name, str) else ""
    return (
        f"The {kind} parser{called} is one of another model family: this model's tokenizer does not have the tokens "
        "that it looks for."
    )


def _other_model_fixes(seen: Evidence) -> list[Fix]:
    flag = "reasoning_parser" if _of_reasoning(seen) else "tool_call_parser"
    also = "" if _of_reasoning(seen) else " (with --enable-auto-tool-choice)"
    return [
        Fix(text=f"Give --{flag.replace('_', '-')} the parser that the model's own card names."),
        without(flag, f"{also}: the model answers without it, its marks stay in the text"),
        Fix(text="If it is a fine-tune, use the original model's tokenizer files, or the base model's parser."),
    ]


SYMPTOMS: tuple[Symptom, ...] = (
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
        id="tokenizer-newer",
        patterns=(r"'list' object has no attribute 'keys'",),
        frames=r":_set_model_specific_special_tokens$",
        versions="0.6 to 0.33",
        explain=say(
            "The tokenizer was saved by transformers 5 (its extra_special_tokens is a list), and this vLLM has 4."
        ),
        fixes=do(
            "Use a vLLM with transformers 5.",
            "Or take tokenizer_config.json of the original model, or remove extra_special_tokens from it.",
        ),
    ),
    Symptom(
        id="tokenizer-mode",
        patterns=(r"'?Mistral(?:Common)?Tokenizer'? object has no attribute '(?P<name>\w+)'",),
        versions="0.10 to 0.33",
        explain=say("The code for this model needs Hugging Face's tokenizer, and got Mistral's own."),
        fixes=do(
            without("tokenizer_mode", ", with --config-format and --load-format mistral"),
            "Or use another release of vLLM.",
        ),
    ),
    Symptom(
        id="harmony-vocab",
        patterns=(r"error downloading or loading vocab file",),
        versions="0.10 to 0.33",
        explain=say(
            "gpt-oss needs a vocabulary file that its library (openai_harmony) downloads at boot, not from the hub, "
            "and could not."
        ),
        fixes=do(
            "Download o200k_base.tiktoken and cl100k_base.tiktoken from openaipublic.blob.core.windows.net/encodings "
            "into a folder, and set TIKTOKEN_ENCODINGS_BASE to it.",
            "Or let the server reach that address once.",
        ),
    ),
    Symptom(
        id="processor-config",
        patterns=(r"size must contain '", r"The size dictionary must contain"),
        versions="0.8 to 0.33",
        explain=say("preprocessor_config.json was written for another release of transformers than vLLM's."),
        fixes=do(
            "Take preprocessor_config.json of the original model as it is now, or a vLLM with as old a transformers.",
            Fix(text="Or leave the vision part out if you only send text.", set={"vision": "off"}),
        ),
    ),
    Symptom(
        id="grammar-crash",
        patterns=(r"^\S",),
        frames=r":(?:compile_grammar|_?(?:async_)?create_grammar|_create_grammar|grammar_init)$",
        when=lambda seen: seen.incident.after_ready,
        versions="0.8 to 0.33",
        explain=lambda seen: (
            "A request's JSON schema or grammar could not be compiled, and the engine died of it instead of refusing "
            f"the request: {reason(seen).rstrip('. ')}."
        ),
        fixes=do(
            "Upgrade vLLM: newer releases answer such a request with an error.",
            "Until then keep that schema from the server, or try --structured-outputs-config.backend guidance.",
        ),
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
        id="locale",
        patterns=(
            r"^UnicodeDecodeError: 'ascii' codec can't decode",
            r"^UnicodeEncodeError: 'ascii' codec can't encode",
        ),
        versions="any",
        explain=say("Python reads files as ASCII here, because the environment has no UTF-8 locale."),
        fixes=do(Fix(text="Start it with UTF-8.", env={"PYTHONUTF8": "1"}), "Or set LANG=C.UTF-8."),
    ),
    Symptom(
        id="mistral-format",
        patterns=(r"Failed to load mistral '[^'\n]+' config",),
        versions="0.12 to 0.33",
        explain=say("The command asks for Mistral's own format, and the model has no params.json of it."),
        fixes=do(
            without(
                "config_format", ", --load-format and --tokenizer-mode mistral: the model is in Hugging Face's format"
            ),
        ),
    ),
    Symptom(
        id="multimodal-context",
        patterns=(
            r"^ValueError: The context length \((?P<context>\d+)\) of the model is too short to hold the multi-modal "
            r"embeddings in the worst case \((?P<needed>\d+)",
        ),
        versions="0.6 to 0.8",
        explain=say(
            "The images or videos of one prompt may take {needed} tokens, and the context has {context}.",
            "The images or videos of one prompt may take more tokens than the context has.",
        ),
        fixes=do(
            "Allow fewer or smaller ones: --limit-mm-per-prompt, and max_pixels in --mm-processor-kwargs.",
            "Or raise --max-model-len; later releases only warn of it.",
        ),
    ),
    Symptom(
        id="tokenizer-tokens",
        patterns=(
            r"Non-consecutive added token '(?P<token>[^'\n]{1,60})' found",
            r"Added token '?(?P<token>[^'\n]{1,60}?)'? (?:has|is) .{0,40}(?:index|id) .{0,60}saved vocabulary",
        ),
        versions="any",
        explain=say(
            "The tokenizer's files do not go together: the added token {token} has a number that the vocabulary "
            "gives to another.",
            "The tokenizer's files do not go together: an added token has a number that the vocabulary gives away.",
        ),
        fixes=do(
            "Take all tokenizer files (tokenizer.json, tokenizer_config.json, added_tokens.json, "
            "special_tokens_map.json) of the original model, or name it: --tokenizer REPO.",
        ),
    ),
    Symptom(
        id="processor-fails",
        patterns=(
            r"Failed to apply (?P<name>\w+Processor\w*)",
            r"Received a (?P<has>\w+) for argument \w+, but an? (?P<name>\w+) was expected",
            r"Expected there to be \d+ prompt (?:updates|placeholders) corresponding to",
        ),
        versions="0.6 to 0.33",
        explain=say(
            "The model's processor ({name}) fails on vLLM's own trial input: transformers, this vLLM and the model's "
            "processor files are of versions that do not go together.",
            "The model's processor fails on vLLM's own trial input: transformers, this vLLM and the model's "
            "processor files are of versions that do not go together.",
        ),
        fixes=do(
            without("mm_processor_kwargs", ": what it sets may be nothing that this processor takes"),
            Fix(text="Leave the vision part out if you only send text.", set={"vision": "off"}),
            "Install the transformers that this vLLM was made with, and the processor's and tokenizer's files of the "
            "original model; Mistral's own format needs --tokenizer-mode mistral.",
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
        patterns=(
            r"(?P<parser>[\w .]{2,40}?) (?P<tools>[Tt]ool )?(?:reasoning |[Pp]arser ?)*could not locate",
            r"Tokenizer must contain '[^'\n]{1,40}' token",
            r"Detected a MistralTokenizer tokenizer when using",
        ),
        versions="0.6 to 0.33",
        explain=_other_model,
        fixes=_other_model_fixes,
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
)
