"""Layers with pages of several kinds → groups with pages of one size, as vLLM makes them."""

from __future__ import annotations

import msgspec

from cockpit.planner.types import Group


class LayerSet(msgspec.Struct, frozen=True, kw_only=True):
    """Layers of one kind before they are grouped: what vLLM calls equal KV cache specs."""

    layers: int
    page_bytes: int
    block_tokens: int
    window: int | None = None
    window_tokens: int | None = None
    state_blocks: int | None = None

    @property
    def family(self) -> tuple[str, int | None, int]:
        """Sets of one family always need the same number of blocks."""
        if self.state_blocks is not None:
            return ("state", None, self.block_tokens)
        return ("full" if self.window is None else "window", self.window, self.block_tokens)


def _group(layers: int, one: LayerSet) -> Group:
    return Group(
        layers=layers,
        page_bytes=one.page_bytes,
        block_tokens=one.block_tokens,
        window_tokens=one.window_tokens,
        state_blocks=one.state_blocks,
    )


def _unified(one: LayerSet, page_bytes: int, padding: bool) -> LayerSet | None:
    """``one`` with pages of ``page_bytes``: by longer blocks where that comes out even, else by padding."""
    if one.state_blocks is None and page_bytes % one.page_bytes == 0:
        longer = one.block_tokens * (page_bytes // one.page_bytes)
        return msgspec.structs.replace(one, page_bytes=page_bytes, block_tokens=longer)
    if one.state_blocks is None and not padding:
        return None
    return msgspec.structs.replace(one, page_bytes=page_bytes)


def group_size(counts: list[int]) -> int:
    """Layers in a group: those of the smallest set, or of the largest where it is less than half as large again.

    ``_get_kv_cache_groups_uniform_page_size`` of v1/core/kv_cache_utils.py (kv_cache_planning.py since 0.33).
    """
    smallest, largest = min(counts), max(counts)
    return largest if largest < smallest * 1.5 else smallest


def grouped(sets: list[LayerSet], padding: bool) -> tuple[tuple[Group, ...], int] | None:
    """The groups and the bytes of one block over the widest of them.

    Sets of one family make one group, whatever their pages (``UniformTypeKVCacheSpecs``). Others get pages of the
    largest size (``unify_kv_cache_spec_page_size``) and are cut into groups of equally many layers. None where a
    page would have to be padded and ``padding`` says that this version leaves that to the backend.
    """
    if len({one.family for one in sets}) == 1:
        total = sum(one.layers * one.page_bytes for one in sets)
        return (_group(sum(one.layers for one in sets), sets[0]),), total
    page_bytes = max(one.page_bytes for one in sets)
    groups: list[Group] = []
    size = group_size([one.layers for one in sets])
    for one in sets:
        unified = _unified(one, page_bytes, padding)
        if unified is None:
            return None
        count = -(-one.layers // size)
        # Layers are dealt out in turn: the first groups may have one more than the last.
        groups += [_group(-(-(one.layers - index) // count), unified) for index in range(count)]
    return tuple(groups), max(group.layers for group in groups) * page_bytes
