"""The vision tower beside a text model: whether there is one, and its dimensions where they are of a known kind."""

from __future__ import annotations

from cockpit.checkpoint.keys import Keys
from cockpit.checkpoint.shape import VisionShape

_PARTS = ("vision_config", "visual", "vision_tower_config", "vit_config")
_IMAGE_KEYS = ("image_token_id", "image_token_index", "mm_vision_tower", "img_context_token_id")
_MAX_DEPTH = 1024
_MAX_SIZE = 1 << 20


def has_vision(keys: Keys, architecture: str) -> bool:
    """Whether the checkpoint takes images: a vision part, or image tokens in a conditional-generation model."""
    for part in _PARTS:
        inner = keys.mapping(part) if not isinstance(keys.data.get(part), str) else None
        if inner is not None and inner.data:
            return True
    thinker = keys.mapping("thinker_config")
    if thinker is not None:
        return has_vision(thinker, architecture)
    return architecture.endswith("ForConditionalGeneration") and keys.has(*_IMAGE_KEYS)


def _side(keys: Keys, key: str, default: int) -> int:
    """A size that some configs give for height and width apart."""
    value = keys.data.get(key)
    if isinstance(value, list) and value:
        return Keys({key: value[0]}, keys.origin, keys.path).integer(key, 1, _MAX_SIZE) or default
    return keys.integer(key, 1, _MAX_SIZE) or default


def _qwen(keys: Keys) -> VisionShape | None:
    width = keys.integer("embed_dim", 1, _MAX_SIZE)
    hidden = width or keys.integer("hidden_size", 1, _MAX_SIZE)
    ratio = keys.integer("mlp_ratio", 1, 64) if isinstance(keys.data.get("mlp_ratio"), int) else None
    intermediate = keys.integer("intermediate_size", 1, _MAX_SIZE)
    depth = keys.integer("depth", 0, _MAX_DEPTH)
    if hidden is None or depth is None or (intermediate is None and ratio is None):
        return None
    side = _side(keys, "patch_size", 14)
    channels = keys.integer(keys.first("in_channels", "in_chans"), 1, 1024) or 3
    frames = keys.integer("temporal_patch_size", 1, 1024) or 2
    return VisionShape(
        layers=depth,
        hidden=hidden,
        intermediate=intermediate or hidden * (ratio or 0),
        patch=channels * frames * side * side,
        positions=keys.integer("num_position_embeddings", 0, 1 << 24) or 0,
        fused=True,
        merge=keys.integer("spatial_merge_size", 1, 64) or 2,
        outputs=keys.integer("hidden_size" if width else "out_hidden_size", 1, _MAX_SIZE),
        deepstack=len(keys.items("deepstack_visual_indexes")),
    )


def read_vision(keys: Keys) -> VisionShape | None:
    """The tower's dimensions, or None when there is none or it is not made of plain transformer blocks.

    Raises CockpitError naming the key that is of the wrong type.
    """
    vision = keys.mapping("vision_config")
    if vision is None:
        return None
    if vision.has("depth"):
        return _qwen(vision)
    layers = vision.integer("num_hidden_layers", 0, _MAX_DEPTH)
    hidden = vision.integer("hidden_size", 1, _MAX_SIZE)
    width = vision.integer("intermediate_size", 1, _MAX_SIZE)
    if layers is None or hidden is None or width is None:
        return None
    side, image = _side(vision, "patch_size", 14), _side(vision, "image_size", 224)
    return VisionShape(
        layers=layers, hidden=hidden, intermediate=width, patch=3 * side * side, positions=(image // side) ** 2
    )
