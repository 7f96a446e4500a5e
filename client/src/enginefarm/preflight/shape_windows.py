"""Shapes of what looks through windows or cuts: convolutions, pooling, slices, padding, Resize."""

from __future__ import annotations

import math
from collections.abc import Sequence

from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.shapes import Known, MisfitError, Rule, Shape, at_axis, shown

_Found = Sequence[Shape | None]
_SPATIAL = 2
_INPUTS_SINCE = 10
_PADS_SINCE = 11


def _conv(node: NodeFacts, known: Known) -> _Found:
    shape, weight = known.shape(node.given(0)), known.shape(node.given(1))
    if shape is None or weight is None or len(shape) != len(weight) or len(shape) <= _SPATIAL:
        return []
    wanted = weight[1] * node.whole("group", 1)
    if shape[1] != wanted:
        raise MisfitError(f"{shown(shape)} has {shape[1]} channels, the weights take {wanted}")
    sizes = _windows(node, shape[_SPATIAL:], node.wholes("kernel_shape") or weight[_SPATIAL:])
    return [(shape[0], weight[0], *sizes)] if sizes is not None else []


def _pool(node: NodeFacts, known: Known) -> _Found:
    shape, kernel = known.shape(node.given(0)), node.wholes("kernel_shape")
    if shape is None or kernel is None or len(kernel) != len(shape) - _SPATIAL:
        return []
    sizes = _windows(node, shape[_SPATIAL:], kernel)
    found = (*shape[:_SPATIAL], *sizes) if sizes is not None else None
    return [found, found]


def _windows(node: NodeFacts, sizes: Shape, kernel: Shape) -> Shape | None:
    rank = len(sizes)
    strides = node.wholes("strides") or (1,) * rank
    dilations = node.wholes("dilations") or (1,) * rank
    padding = node.word("auto_pad", "NOTSET")
    pads = node.wholes("pads") or (0,) * (2 * rank)
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        return None
    found = []
    for axis, size in enumerate(sizes):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if padding.startswith("SAME"):
            found.append(math.ceil(size / strides[axis]))
            continue
        around = 0 if padding == "VALID" else pads[axis] + pads[axis + rank]
        if size > 0 and size + around < reach:
            raise MisfitError(
                f"a window of {reach} does not fit into {size} with {around} of padding"
            )
        if (size + around - reach) % strides[axis] and node.whole("ceil_mode", 0):
            return None  # implementations differ in a last window that begins in the padding
        found.append((size + around - reach) // strides[axis] + 1)
    return tuple(found)


def _conv_transpose(node: NodeFacts, known: Known) -> _Found:
    shape, weight = known.shape(node.given(0)), known.shape(node.given(1))
    plain = node.word("auto_pad", "NOTSET") == "NOTSET" and node.wholes("output_shape") is None
    if shape is None or weight is None or len(shape) != len(weight) or not plain:
        return []
    if shape[1] != weight[0]:
        raise MisfitError(f"{shown(shape)} has {shape[1]} channels, the weights take {weight[0]}")
    rank = len(shape) - _SPATIAL
    strides = node.wholes("strides") or (1,) * rank
    dilations = node.wholes("dilations") or (1,) * rank
    pads = node.wholes("pads") or (0,) * (2 * rank)
    more = node.wholes("output_padding") or (0,) * rank
    if len(strides) != rank or len(pads) != 2 * rank or len(more) != rank or set(dilations) != {1}:
        return []
    sizes = [
        strides[axis] * (shape[axis + 2] - 1)
        + more[axis]
        + weight[axis + 2]
        - pads[axis]
        - pads[axis + rank]
        for axis in range(rank)
    ]
    return [(shape[0], weight[1] * node.whole("group", 1), *sizes)]


def _global(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    return [(*shape[:_SPATIAL], *(1 for _ in shape[_SPATIAL:]))] if shape is not None else []


def _slice(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    if known.opset < _INPUTS_SINCE:
        starts, ends, axes, steps = (
            node.wholes("starts"),
            node.wholes("ends"),
            node.wholes("axes"),
            None,
        )
    else:
        starts, ends, axes, steps = (known.wholes(node.given(number)) for number in range(1, 5))
        if (node.given(3) and axes is None) or (node.given(4) and steps is None):
            return []
    if shape is None or starts is None or ends is None or len(starts) != len(ends):
        return []
    axes = axes if axes is not None else tuple(range(len(starts)))
    steps = steps if steps is not None else (1,) * len(starts)
    found = list(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=False):
        at = at_axis(axis, len(shape))
        if step == 0:
            raise MisfitError("it steps by 0")
        found[at] = len(range(*slice(start, _open(end, step), step).indices(shape[at])))
    return [tuple(found)]


def _open(end: int, step: int) -> int | None:
    """Return the end of a slice; for a step backwards the least number means the beginning."""
    return None if step < 0 and end <= -(2**31) else end


def _split(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    if shape is None or not shape:
        return []
    axis = at_axis(node.whole("axis", 0), len(shape))
    parts = known.wholes(node.given(1)) if node.given(1) else node.wholes("split")
    if parts is None and node.given(1):
        return []
    if parts is None:
        count = node.whole("num_outputs", len(node.outputs))
        if count != len(node.outputs) or not count:
            return []
        each = -(-shape[axis] // count)
        parts = tuple(max(min(each, shape[axis] - each * number), 0) for number in range(count))
    if sum(parts) != shape[axis]:
        raise MisfitError(
            f"parts of {shown(parts)} do not make up dimension {axis} of {shown(shape)}"
        )
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def _pad(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    pads = node.wholes("pads") if known.opset < _PADS_SINCE else known.wholes(node.given(1))
    if shape is None or pads is None or node.given(3) or len(pads) != 2 * len(shape):
        return []
    rank = len(shape)
    found = tuple(size + pads[axis] + pads[axis + rank] for axis, size in enumerate(shape))
    if any(size < 0 for size in found):
        raise MisfitError(f"{shown(shape)} cannot be cut by {pads}")
    return [found]


def _resize(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    old = node.op == "Upsample" or known.opset < _PADS_SINCE
    sizes = known.wholes(node.given(3)) if not old and node.given(3) else None
    scales = known.values.get(node.given(1 if old else 2))
    plain = (
        node.wholes("axes") is None
        and node.word("keep_aspect_ratio_policy", "stretch") == "stretch"
    )
    if shape is None or not plain:
        return []
    if sizes is not None:
        return [sizes] if len(sizes) == len(shape) else []
    if node.given(3) or not scales or len(scales) != len(shape):
        return []
    return [tuple(math.floor(size * scale) for size, scale in zip(shape, scales, strict=True))]


def _depth_to_space(node: NodeFacts, known: Known) -> _Found:
    shape, block = known.shape(node.given(0)), node.whole("blocksize", 0)
    if shape is None or len(shape) != 4 or block < 1:  # noqa: PLR2004 - images
        return []
    count, depth, high, wide = shape
    if node.op == "DepthToSpace":
        if depth % (block * block):
            raise MisfitError(f"{depth} channels do not divide by {block * block}")
        return [(count, depth // block**2, high * block, wide * block)]
    if high % block or wide % block:
        raise MisfitError(f"{high}x{wide} does not divide by {block}")
    return [(count, depth * block**2, high // block, wide // block)]


def _recurrent(node: NodeFacts, known: Known) -> _Found:
    shape, hidden = known.shape(node.given(0)), node.whole("hidden_size", 0)
    if shape is None or len(shape) != 3 or not hidden or node.whole("layout", 0):  # noqa: PLR2004
        return []
    ways = 2 if node.word("direction", "forward") == "bidirectional" else 1
    last = (ways, shape[1], hidden)
    return [(shape[0], ways, shape[1], hidden), last, last]


RULES: dict[str, Rule] = {
    "AveragePool": _pool,
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "GRU": _recurrent,
    "GlobalAveragePool": _global,
    "GlobalMaxPool": _global,
    "LSTM": _recurrent,
    "LpPool": _pool,
    "MaxPool": _pool,
    "Pad": _pad,
    "RNN": _recurrent,
    "Resize": _resize,
    "Slice": _slice,
    "SpaceToDepth": _depth_to_space,
    "Split": _split,
    "Upsample": _resize,
}
