"""Propose a profile for a model that needs one: a place to start, never a silent default. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from enginefarm.dim_names import is_placeholder
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView

# Cautious: small enough to build on a laptop. What the traffic is like, only people know.
_BATCH = (1, 1, 8)
_SEQUENCE = (16, 128, 512)
_IMAGE_SIDE = (160, 320, 640)
_OTHER = (16, 64, 256)
_PAST = (1, 128, 512)
_IMAGE_RANK = 4
_MAX_CHANNELS = 4
# One step of a model that keeps a state: speech models take 32 ms at 16 kHz and 4 ms before them,
# and branch by the length, so that only one length can be built for.
_FRAME = (576, 576, 576)
_FRAME_RANK = 2
_STATE_RANK = 3
_MOST_LAYERS = 64
_STATE = re.compile(
    r"(?:.*[_.])?(?:states?|hidden|cell|memory|hx|cx|[hc](?:_?(?:0|n|in))?)(?:[_.]?(?:in|\d+))?",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[a-z]+")
_BATCH_WORDS = frozenset({"batch", "bs", "n", "b", "batchsize"})
_PAST_WORDS = frozenset({"past", "cache", "kv"})
_SEQUENCE_WORDS = frozenset(
    {"seq", "sequence", "length", "len", "seqlen", "time", "frames", "tokens", "samples"}
)
_SIDE_WORDS = frozenset({"height", "width", "h", "w", "image"})


def propose(inputs: Sequence[TensorView]) -> Profile:
    """Return a profile for the dynamic inputs, with one range for each name of a dimension."""
    chosen: dict[str, tuple[int, int, int]] = {}
    profile: dict[str, ShapeRange] = {}
    streams = any(map(_is_state, inputs))
    for row in inputs:
        if all(isinstance(dim, int) for dim in row.shape):
            continue
        ranges = [_range(row, axis, chosen, streams=streams) for axis in range(len(row.shape))]
        low, usual, high = ([each[which] for each in ranges] for which in range(3))
        profile[row.name] = ShapeRange(min=low, opt=usual, max=high)
    return profile


def _range(
    row: TensorView, axis: int, chosen: dict[str, tuple[int, int, int]], *, streams: bool
) -> tuple[int, int, int]:
    dim = row.shape[axis]
    if isinstance(dim, int):
        return dim, dim, dim
    guess = _guess(row, axis, set(_WORDS.findall((dim or "").lower())), streams=streams)
    return guess if dim is None or is_placeholder(dim) else chosen.setdefault(dim, guess)


def _guess(row: TensorView, axis: int, words: set[str], *, streams: bool) -> tuple[int, int, int]:
    if _is_state(row):
        return _BATCH
    if streams and axis == 1 and len(row.shape) == _FRAME_RANK and not words & _BATCH_WORDS:
        return _FRAME
    for known, range_ in (
        (_BATCH_WORDS, _BATCH),
        (_PAST_WORDS, _PAST),
        (_SEQUENCE_WORDS, _SEQUENCE),
        (_SIDE_WORDS, _IMAGE_SIDE),
    ):
        if words & known:
            return range_
    if axis == 0:
        return _BATCH
    if _is_image(row) and axis in {2, 3}:
        return _IMAGE_SIDE
    whole_numbers = row.dtype in {"int64", "int32"}
    return _SEQUENCE if whole_numbers else _OTHER


def _is_state(row: TensorView) -> bool:
    """Tell the state of a recurrent layer: layers, a batch of any size, and what is kept of each.

    The batch has often no name there, and is that of the other inputs all the same.
    """
    layers, batch, kept = row.shape if len(row.shape) == _STATE_RANK else (None, None, None)
    return (
        isinstance(layers, int)
        and not isinstance(batch, int)
        and isinstance(kept, int)
        and (layers <= _MOST_LAYERS and bool(_STATE.fullmatch(row.name)))
    )


def _is_image(row: TensorView) -> bool:
    """Tell by its four dimensions, the second of which counts colours."""
    colours = row.shape[1] if len(row.shape) == _IMAGE_RANK else None
    return isinstance(colours, int) and colours <= _MAX_CHANNELS
