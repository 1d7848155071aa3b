"""What lies beside the weights in a checkpoint's folder: tokenizer, chat template, GGUF files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cockpit.checkpoint.keys import read_json
from cockpit.checkpoint.types import Beside, OwnCode
from cockpit.errors import CockpitError

_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "qwen.tiktoken",
    "tiktoken.model",
)
"""Files of which transformers or mistral-common makes a tokenizer."""
_PROCESSORS = ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json")
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates")

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,200}")
"""Of a model type or a class, with the repository before it where that is another: ``owner/name--module.Class``."""
_POINTER = b"version https://git-lfs"
_END_BYTES = 256
_BLANKS = b" \t\r\n\xef\xbb\xbf\x00"


def read_beside(folder: Path) -> Beside | None:
    """What the folder has; None when it cannot be listed."""
    try:
        names = {entry.name for entry in folder.iterdir()}
    except OSError:
        return None
    tokenizer = any(name in names for name in _TOKENIZERS) or any(
        name.endswith((".tiktoken", ".model")) and "token" in name for name in names
    )
    config = _read(folder, "tokenizer_config.json", names)
    template = any(name in names for name in _TEMPLATES) or "tekken.json" in names
    return Beside(
        tokenizer=tokenizer,
        chat_template=True if template else None if config is None else bool(config.get("chat_template")),
        gguf=any(name.endswith(".gguf") for name in names),
        tokenizer_fault=_fault(folder / "tokenizer.json") if "tokenizer.json" in names else None,
        tokenizer_of_5=_of_5(config or {}),
        # A folder with params.json, of Mistral, is read by that.
        config_code=None if "params.json" in names else _config_code(folder),
        # Mistral's own tokenizer is read without transformers.
        tokenizer_code=None
        if "tekken.json" in names
        else _own_code(config or {}, "AutoTokenizer", "tokenizer_class"),
        processor_code=_processor_code(folder, names),
    )


def _own_code(config: dict[str, Any], auto: str, otherwise: str) -> OwnCode | None:
    """The class that a file of transformers names for one of its Auto classes; a list holds a slow and a fast one."""
    named = config.get("auto_map")
    code = named.get(auto) if isinstance(named, dict) else named if auto == "AutoTokenizer" else None
    codes = [one for one in (code if isinstance(code, list) else [code]) if isinstance(one, str)]
    other = config.get(otherwise)
    if not codes or not _NAME.fullmatch(codes[-1]):
        return None
    return OwnCode(codes[-1], other if isinstance(other, str) and _NAME.fullmatch(other) else None)


def _processor_code(folder: Path, names: set[str]) -> OwnCode | None:
    """That of the processor, from the first file that names its class or code, as AutoProcessor looks for it."""
    for name in _PROCESSORS:
        config = _read(folder, name, names) or {}
        code = _own_code(config, "AutoProcessor", "processor_class")
        if code is not None or config.get("processor_class"):
            return code
    return None


def _config_code(folder: Path) -> tuple[str, str] | None:
    """The model type and the class of which transformers' AutoConfig would run the code: ``configuration_x.XConfig``.

    None also for a speculator, of which vLLM makes a type of its own.
    """
    try:
        config = read_json(folder / "config.json")
    except CockpitError:
        return None
    named = config.get("auto_map")
    code = named.get("AutoConfig") if isinstance(named, dict) else None
    kind = config.get("model_type")
    if not isinstance(code, str) or not isinstance(kind, str) or "speculators_config" in config:
        return None
    return (kind, code) if _NAME.fullmatch(kind) and _NAME.fullmatch(code) else None


def _fault(file: Path) -> str | None:
    """Why a JSON file cannot be one, by its ends alone: it may have 30 MB."""
    try:
        with file.open("rb") as stream:
            head = stream.read(_END_BYTES)
            stream.seek(max(0, file.stat().st_size - _END_BYTES))
            tail = stream.read(_END_BYTES)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if not head.strip():
        return "is empty"
    if head.startswith(_POINTER):
        return "is a Git LFS pointer, not the file itself"
    if not head.lstrip(_BLANKS).startswith(b"{"):
        return "is no JSON object"
    return None if tail.rstrip(_BLANKS).endswith(b"}") else "is cut off"


def _read(folder: Path, name: str, names: set[str]) -> dict[str, Any] | None:
    """A file of transformers, empty where there is none; None when it cannot be read."""
    if name not in names:
        return {}
    try:
        return read_json(folder / name)
    except CockpitError:
        return None


def _of_5(config: dict[str, Any]) -> str | None:
    """What transformers 4 fails on: its 5 saves a class and a form of special tokens that came with it."""
    if "auto_map" in config:
        return None
    if config.get("tokenizer_class") == "TokenizersBackend":
        return "names the class TokenizersBackend"
    return "has extra_special_tokens as a list" if isinstance(config.get("extra_special_tokens"), list) else None
