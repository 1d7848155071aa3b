"""A checkpoint by folder, config.json or repository name → Checkpoint. Reads local files only, never the network."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import msgspec

from cockpit.checkpoint.beside import read_beside
from cockpit.checkpoint.cache import cached_folder
from cockpit.checkpoint.config import read_shape
from cockpit.checkpoint.declared import Declaration
from cockpit.checkpoint.keys import Keys, read_json, shown
from cockpit.checkpoint.layers import counted
from cockpit.checkpoint.loads import estimated_pieces, loads_of, stored_pieces, tensors_of
from cockpit.checkpoint.modules import Module, modules_of
from cockpit.checkpoint.quantization import read_declaration, summarize
from cockpit.checkpoint.safetensors import Tensor, read_folder
from cockpit.checkpoint.shape import Shape
from cockpit.checkpoint.sizes import estimated_sizes
from cockpit.checkpoint.stored import stored_modules, stored_sizes
from cockpit.checkpoint.types import Checkpoint
from cockpit.errors import CockpitError

_CONFIG = "config.json"
_MODELOPT = "hf_quant_config.json"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")
_MTP_LAYER = re.compile(r"(?:^|\.)mtp\.layers\.(\d{1,4})\.")


def _described(source: str, folder: Path | None, shape: Shape, declaration: Declaration) -> Checkpoint:
    """The checkpoint as its config alone describes it."""
    modules = [(module, declaration.resolve(module)) for module in modules_of(shape)]
    experts = shape.experts
    sizes = estimated_sizes(shape, modules, declaration.method)
    pieces = () if sizes is None else tuple(estimated_pieces(shape, modules, declaration.method))
    return Checkpoint(
        source=source,
        folder=str(folder) if folder else None,
        architecture=shape.architecture,
        model_type=shape.model_type,
        moe=shape.moe,
        experts=experts.count if experts else None,
        experts_per_token=experts.per_token if experts else None,
        expert_size=experts.intermediate if experts else None,
        layers=counted(shape.kinds),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        attention_heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        global_head_dim=shape.global_head_dim,
        global_kv_heads=shape.global_kv_heads,
        layers_without_kv=counted(shape.kinds[len(shape.kinds) - shape.kv_shared_layers :]),
        vocab_size=shape.vocab,
        max_model_len=shape.max_positions,
        rope_scaling=shape.rope_scaling,
        dual_chunk=shape.dual_chunk,
        beside=read_beside(folder) if folder else None,
        sliding_window=shape.window,
        linear_attention=shape.linear_attention,
        mtp_layers=shape.mtp_layers,
        vision=shape.has_vision,
        tied_embeddings=shape.tied,
        dtype=shape.dtype,
        quantization=summarize(declaration, () if declaration.method == "other" else modules),
        sizes=sizes,
        loads=loads_of(pieces),
        tensors=tensors_of(pieces),
        rotary_tables=shape.rotary_tables,
    )


def described(config: Path, declaration: Declaration, *, mtp: bool, vision: bool) -> Checkpoint:
    """A checkpoint of the dimensions in ``config`` whose modules are stored as ``declaration`` says.

    ``mtp`` and ``vision`` tell whether it has an MTP head and a vision tower, where the architecture provides them.
    Raises CockpitError when the file is not a model's config.json.
    """
    shape = read_shape(Keys(read_json(config), str(config)))
    if not mtp:
        shape = msgspec.structs.replace(shape, mtp_layers=0)
    if not vision:
        shape = msgspec.structs.replace(shape, has_vision=False, vision=None)
    return _described(str(config), None, shape, declaration)


def _mtp_layers(tensors: dict[str, Tensor], shape: Shape, mtp_bytes: int) -> int:
    """Layers of the MTP head that the files hold: quantizers may leave it out, and some configs do not tell of it."""
    found = {int(match.group(1)) for name in tensors if (match := _MTP_LAYER.search(name))}
    if found:
        return len(found)
    return max(1, shape.mtp_layers) if mtp_bytes else 0


def _measured(
    checkpoint: Checkpoint, shape: Shape, declaration: Declaration, tensors: dict[str, Tensor]
) -> Checkpoint:
    """``checkpoint`` with what the headers of its files know better."""
    expected: dict[str, Module] = {module.name: module for module in modules_of(shape)}
    found = list(stored_modules(tensors, declaration.resolve, expected, len(shape.kinds)))
    sizes = stored_sizes(tensors, len(shape.kinds))
    mismatched = sum(
        differs and place.kind in ("linear", "experts") and declaration.method != "other"
        for place, _, differs in found
    )
    pieces = tuple(stored_pieces(tensors, shape, declaration.method))
    return msgspec.structs.replace(
        checkpoint,
        moe=checkpoint.moe or any(".experts." in name for name in tensors),
        mtp_layers=_mtp_layers(tensors, shape, sizes.mtp),
        tied_embeddings=checkpoint.tied_embeddings and sizes.lm_head == 0,
        quantization=summarize(declaration, ((place, scheme) for place, scheme, _ in found), mismatched),
        sizes=sizes,
        loads=loads_of(pieces),
        tensors=tensors_of(pieces),
    )


def _read_folder(source: str, folder: Path) -> Checkpoint:
    config = folder / _CONFIG
    if not config.exists() and not config.is_symlink():
        files = read_beside(folder)
        if files is not None and files.gguf:
            fix = "Take a safetensors checkpoint of 4 bits, or serve this one with llama.cpp."
            raise CockpitError(f"{folder}: has GGUF files and no config.json, which vLLM wants", fix=fix)
        raise CockpitError(f"{folder}: has no config.json", fix="Name the folder of a checkpoint, or its repository.")
    keys = Keys(read_json(config), str(config))
    modelopt = folder / _MODELOPT
    beside = Keys(read_json(modelopt), str(modelopt)) if modelopt.exists() else None
    shape, declaration = read_shape(keys), read_declaration(keys, beside)
    checkpoint = _described(source, folder, shape, declaration)
    tensors = read_folder(folder)
    return checkpoint if tensors is None else _measured(checkpoint, shape, declaration, tensors)


def _local(source: str) -> Path | None:
    """The folder or file that ``source`` names; None when it is none but could be a repository."""
    try:
        path = Path(source).expanduser()
        if source and path.exists():
            return path
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            detail = error.strerror or type(error).__name__
            raise CockpitError(f"{shown(source)}: cannot be read", detail, "Make it readable.") from error
    except (RuntimeError, ValueError):
        # A home that does not exist, or a character that no path can have.
        pass
    if _REPOSITORY.fullmatch(source) is None or source.endswith(".json"):
        raise CockpitError(
            f"{shown(source)}: no such folder or file",
            fix="Name a checkpoint folder, a config.json or a repository as owner/name.",
        )
    return None


def inspect(source: str, cache_home: Path | None = None) -> Checkpoint:
    """The checkpoint at ``source``: a folder, a config.json file, or ``owner/name`` in the Hugging Face cache.

    ``cache_home`` is the cache's folder with ``models--…`` in it; None takes it from the environment. A lone
    config.json gives estimated sizes. Raises CockpitError with one sentence and a fix when there is no such
    checkpoint or its files are not what they should be.
    """
    path = _local(source)
    if path is None:
        return _read_folder(source, cached_folder(source, cache_home))
    if path.is_dir():
        return _read_folder(source, path)
    keys = Keys(read_json(path), str(path))
    return _described(source, None, read_shape(keys), read_declaration(keys))
