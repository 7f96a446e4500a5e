"""What is known of calibration data before a stage reads it: from headers and ranges. Pure.

It is said in the words in which the stage will say it, and counted as the stage counts: a sample is
what the model takes at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginefarm import calibration_findings as say
from enginefarm.finding import Finding
from enginefarm.sizes import by_size
from enginefarm.spec import Profile
from enginefarm.tensor import StoredArray, TensorView

_MOST_FOR_ROWS = 2
"""Rows of tokens have no more dimensions, and how long they are without padding is in them."""
_TWICE = "whether samples are there twice"
_NOISE = "whether they look like random noise, which is refused where nothing held out judges it"
_RANGES = "the ranges of their values"
_LENGTHS = "how long rows of tokens are without their padding"


@dataclass(frozen=True)
class Feed:
    """What a model is calibrated for: its inputs, and the shapes that the engine is built for."""

    inputs: Sequence[TensorView]
    profiles: Sequence[Profile] = ()


@dataclass(frozen=True)
class _Block:
    """Samples of one size: how many, what shape each input has, and how many rows are used."""

    samples: int
    shapes: dict[str, tuple[int, ...]]
    arrays: dict[str, StoredArray]
    whole: bool
    """Whether every value of the arrays is in a sample."""


def findings(
    feed: Feed,
    calibration: Sequence[StoredArray],
    evaluation: Sequence[StoredArray] | None,
    most: int | None = None,
) -> list[Finding]:
    """Return what is known of calibration data that fits the inputs; ``most``: samples to use."""
    blocks = list(_blocks(feed, calibration, most))
    held_out = None if evaluation is None else list(_blocks(feed, evaluation, say.MOST_LOOKED_AT))
    found = [*_outside(feed, blocks)]
    found += say.too_few(sum(row.samples for row in blocks), judged=held_out is not None)
    later = [_TWICE, _NOISE]
    for view in feed.inputs:
        ends = _ends(blocks, view.name)
        real = None if held_out is None else _ends(held_out, view.name)
        if ends is not None and ends[0] == ends[1] and _elements(blocks, view.name) > 1:
            found.append(say.constant(view.name, ends[0]))
        if ends is not None and real is not None:
            found += say.range_differs(view.name, max(map(abs, ends)), max(map(abs, real)))
        unknown = ends is None or (held_out is not None and real is None)
        later += [_RANGES] if unknown and _RANGES not in later else []
    found += _lengths(feed.inputs, blocks, held_out or (), later)
    return [*found, *say.rounded(_rounded(feed.inputs, blocks)), say.seen_later(later)]


def _blocks(feed: Feed, arrays: Sequence[StoredArray], most: int | None) -> Iterator[_Block]:
    """Yield the samples of a dataset size by size, in the order in which a stage reads them."""
    known = {array.name: array for array in arrays}
    views = {view.name: view for view in feed.inputs}
    left = most
    for row in by_size(known, views):
        mine = {name: known[row[name]] for name in views if name in row}
        rows = min((_whole(array.shape)[0] for array in mine.values()), default=0)
        used = rows if left is None else min(rows, left)
        left = None if left is None else left - used
        alone = {name for name in mine if len(mine[name].shape) == len(views[name].shape) + 1}
        size = 1 if alone else _together(feed)
        shapes = {
            name: tuple(_whole(array.shape)[1:])
            if name in alone
            else (size, *_whole(array.shape)[1:])
            for name, array in mine.items()
        }
        yield _Block(used // size, shapes, mine, whole=used == rows and used % size == 0)


def _together(feed: Feed) -> int:
    """Return how many rows a sample has where the model takes batches."""
    least = [1]
    profile = feed.profiles[0] if feed.profiles else {}
    for view in feed.inputs:
        first = view.shape[0] if view.shape else 1
        if isinstance(first, int):
            least.append(first)
        elif view.name in profile:
            least.append(profile[view.name].min[0])
    return max(least)


def _whole(shape: Sequence[int | str | None]) -> list[int]:
    return [dim for dim in shape if isinstance(dim, int)]


def _outside(feed: Feed, blocks: Sequence[_Block]) -> list[Finding]:
    first: list[str] = []
    number = count = 0
    for block in blocks:
        fault = say.refused_by_all(block.shapes, feed.profiles)
        if fault is not None:
            named = min(block.samples, say.SHOWN)
            first += [f"sample {number + at}: {fault}" for at in range(named)]
            count += block.samples
        number += block.samples
    return say.outside(first, count)


def _ends(blocks: Sequence[_Block], name: str) -> tuple[float, float] | None:
    """Return the least and the largest value of an input; None where a file does not tell."""
    rows = [block.arrays[name] for block in blocks if name in block.arrays]
    if not rows or not all(block.whole for block in blocks):
        return None
    ends = [(row.low, row.high) for row in rows]
    lows = [low for low, _ in ends if low is not None]
    highs = [high for _, high in ends if high is not None]
    return (min(lows), max(highs)) if len(lows) == len(highs) == len(rows) else None


def _elements(blocks: Sequence[_Block], name: str) -> int:
    return sum(block.samples * math.prod(block.shapes.get(name, (0,))) for block in blocks)


def _lengths(
    inputs: Sequence[TensorView],
    blocks: Sequence[_Block],
    held_out: Sequence[_Block],
    later: list[str],
) -> list[Finding]:
    """Compare how long samples are; of rows of tokens that is in their values."""
    found: list[Finding] = []
    for view in inputs:
        one, other = (_length(rows, view) for rows in (blocks, held_out))
        if held_out and (one is None or other is None):
            later += [] if _LENGTHS in later else [_LENGTHS]
        elif one is not None and other is not None:
            found += say.length_differs(view.name, one, other)
    return found


def _length(blocks: Sequence[_Block], view: TensorView) -> float | None:
    """Return the median of the last dimension, over all samples."""
    lengths = Counter[float]()
    for block in blocks:
        shape = block.shapes.get(view.name, ())
        tokens = "int" in view.dtype or view.dtype == "bool"
        if tokens and 0 < len(shape) <= _MOST_FOR_ROWS:
            return None
        lengths[float(shape[-1]) if shape else 1.0] += block.samples
    total = lengths.total()
    if total == 0:
        return None
    return (_nth(lengths, (total - 1) // 2) + _nth(lengths, total // 2)) / 2


def _nth(lengths: Mapping[float, int], place: int) -> float:
    for length in sorted(lengths):
        place -= lengths[length]
        if place < 0:
            return length
    return max(lengths)


def _rounded(inputs: Sequence[TensorView], blocks: Sequence[_Block]) -> list[str]:
    return [
        view.name
        for view in inputs
        if view.dtype != "float64"
        and any(
            block.arrays[view.name].dtype == "float64"
            for block in blocks
            if view.name in block.arrays
        )
    ]
