"""Which nodes must stay in fp32 so that a model in half precision gives what it gave.

Three things are found, in this order: constants that half cannot hold; tensors that come near its
end; and, where the result still is not what it was, the spans of nodes that lose most, found by
running the model with one span in half at a time. A span is what stands between two products of
matrices: those are what half precision is for, and what it hurts is mostly between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from workers.measurement.inputs import Feeds
from workers.precision.casting import Plan, constants_beyond
from workers.precision.running import Outputs, largest_values, likeness, opened, outputs_of
from workers.precision.writing import written

LIKE_ENOUGH = 0.9999
"""A cosine above which no span is looked for."""
NEAR_THE_END = 0.5
"""Tensors that reach this share of the largest half value have no room left for other inputs."""
MOST_SPANS = 48
_HEAVY = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Einsum"))


@dataclass
class Ground:
    """What candidates are run on, and where. ``samples`` are few, and held; ``every`` streams."""

    samples: Sequence[Feeds]
    every: Iterable[Feeds]
    folder: Path
    alive: Callable[[str, str], None]


def keep_what_must(plan: Plan, ground: Ground) -> float:
    """Add to the plan the nodes that stay in fp32; return how like the original the result is."""
    plan.kept |= constants_beyond(plan)
    plan.kept |= _near_the_end(plan, ground)
    wanted = _reference(plan, ground)
    like = _likeness(plan, ground, wanted)
    if like >= LIKE_ENOUGH:
        return like
    return _without_spans(plan, ground, wanted, like)


def _near_the_end(plan: Plan, ground: Ground) -> dict[int, str]:
    """Return the nodes that read or make a tensor that half cannot hold on any of the samples."""
    names: dict[str, None] = {}
    weights = {row.name for row in plan.model.graph.initializer}
    touched = {place: list(_tensors(plan, place)) for place in plan.cast}
    for row in touched.values():
        names |= dict.fromkeys(name for name in row if name not in weights)
    found = largest_values(plan.model, names, _told(ground), ground.folder)
    end = plan.half.largest * NEAR_THE_END
    large = {name: value for name, value in found.items() if not value <= end}
    return {
        place: f"{name} reaches {large[name]:.3g}"
        for place, row in touched.items()
        for name in row
        if name in large
    }


def _told(ground: Ground) -> Iterator[Feeds]:
    for number, feeds in enumerate(ground.every):
        ground.alive("looking for values beyond half precision", f"{number} samples")
        yield feeds


def _tensors(plan: Plan, place: int) -> list[str]:
    node, slots = plan.nodes[place], plan.slots[place]
    return [node.input[at] for at in slots.inputs] + [node.output[at] for at in slots.outputs]


def _reference(plan: Plan, ground: Ground) -> list[Outputs]:
    runner = opened(plan.model, ground.folder)
    return [outputs_of(runner, feeds) for feeds in ground.samples]


def _likeness(plan: Plan, ground: Ground, wanted: Sequence[Outputs]) -> float:
    """Return the worst cosine of what the plan gives, as a GPU would round it."""
    ground.alive("trying half precision", f"{len(plan.cast)} nodes")
    runner = opened(written(plan, rounded=True), ground.folder)
    pairs = zip(ground.samples, wanted, strict=True)
    return min(likeness(left, outputs_of(runner, feeds)) for feeds, left in pairs)


def _without_spans(plan: Plan, ground: Ground, wanted: Sequence[Outputs], like: float) -> float:
    spans = _spans(plan)
    before = dict(plan.kept)
    losses = []
    for number, span in enumerate(spans):
        others = {place: "" for row in spans if row is not span for place in row}
        alone = Plan(plan.model, plan.half, plan.slots, before | others)
        losses.append((1 - _likeness(alone, ground, wanted), number))
    losses.sort(reverse=True)
    best, found = dict(before), like
    for count in doubling(len(spans)):
        plan.kept = before | {
            place: f"in half this span costs {loss:.2g} of the cosine"
            for loss, number in losses[:count]
            for place in spans[number]
        }
        now = _likeness(plan, ground, wanted)
        if now > found:
            best, found = dict(plan.kept), now
        if found >= LIKE_ENOUGH:
            break
    plan.kept = best
    return found


def doubling(most: int) -> Iterator[int]:
    """Yield 1, 2, 4, … and ``most``."""
    count = 1
    while count < most:
        yield count
        count *= 2
    yield most


def _spans(plan: Plan) -> list[list[int]]:
    """Return the nodes to be cast in spans, products of matrices by themselves."""
    spans: list[list[int]] = []
    light = False
    for place in plan.cast:
        heavy = plan.nodes[place].op_type in _HEAVY
        if heavy or not light:
            spans.append([])
        spans[-1].append(place)
        light = not heavy
    share = max(1, -(-len(spans) // MOST_SPANS))
    edges = [*range(0, len(spans), share), len(spans)]
    return [
        [place for span in spans[first:last] for place in span] for first, last in pairwise(edges)
    ]
