"""Sizes that an operator cannot take at the ends of the profiles: baked batches, TopK, nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from enginefarm.counted import counted
from enginefarm.finding import Finding, at_nodes, at_tensors, error_finding, note_finding
from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.rules.grouping import grouped, refusal
from enginefarm.preflight.subject import Rule, Sized, Subject

_WIDE = 64
"""A profile whose max is so many times its opt is worth a word."""
_FIX = (
    "Give a profile of sizes that the model takes (networks that halve an image take multiples of"
    " 32, say). If a size was baked in at export, export again with dynamic shapes, or give a"
    " profile of exactly that shape."
)


def misfits(subject: Subject) -> Iterator[Finding]:
    """Nodes that certainly cannot take the sizes that reach them."""
    first: dict[str, tuple[NodeFacts, str, list[str]]] = {}
    for sized in subject.sized:
        for node, why in sized.known.misfits:
            first.setdefault(node.label, (node, why, []))[2].append(sized.place)
    alike = grouped(
        ((node.op, why, "; ".join(places[:3])), node.label) for node, why, places in first.values()
    )
    for (op, why, told), labels in alike.items():
        found = error_finding(
            "shape_mismatch",
            f"{op} cannot take the sizes of {told}.",
            why=f"{why[:1].upper()}{why[1:]}.",
            fix=_FIX,
        )
        yield at_nodes(found, labels, op)


def large_topk(subject: Subject) -> Iterator[Finding]:
    """TopK with more elements than the compiler has room for."""
    most = subject.capabilities.most_topk
    if most is None:
        return
    nodes = subject.facts.graph.every_node()
    found = grouped(
        (max((_count(node, sized) for sized in subject.sized), default=0), node.label)
        for node in nodes
        if node.op == "TopK" and not node.domain
    )
    for asked, labels in found.items():
        if asked > most:
            yield at_nodes(
                refusal(
                    subject,
                    "topk_too_large",
                    f"TopK asks for {asked} elements; {subject.capabilities.label} gives {most}.",
                    fix="Reduce K, or do this step after the model.",
                ),
                labels,
                "TopK",
            )


def _count(node: NodeFacts, sized: Sized) -> int:
    values = sized.known.wholes(node.given(1)) if node.given(1) else (node.whole("k", 0),)
    return values[0] if values else 0


def empty_tensors(subject: Subject) -> Iterator[Finding]:
    """Tensors without an element: legal, and often a slice that was meant otherwise."""
    names = dict[str, None]()
    for sized in subject.at_end("opt"):
        if any(0 in shape for shape in sized.inputs.values()):
            continue
        for node in subject.facts.graph.nodes:
            for name in node.outputs:
                made = not subject.origins.get(name).constant
                if made and 0 in (sized.known.shape(name) or (1,)):
                    names[name] = None
    if names:
        found = note_finding(
            "zero_size_tensor",
            f"{counted(len(names), 'tensor has', 'tensors have')} no element at the profile's usual"
            " sizes.",
            why="That is legal, and runtimes differ in how well they take it.",
            fix="Look whether a slice was meant to be empty.",
        )
        yield at_tensors(found, names)


def wide_profiles(subject: Subject) -> Iterator[Finding]:
    """Profiles whose largest sizes are far from the usual: they cost memory and build time."""
    for number, profile in enumerate(subject.profiles):
        usual = sum(math.prod(row.opt) for row in profile.values())
        most = sum(math.prod(row.max) for row in profile.values())
        if usual and most > _WIDE * usual:
            yield note_finding(
                "profile_wide",
                f"Profile {number} reaches up to {most // usual} times its usual size.",
                why="The largest size decides what memory an engine takes and how long it builds.",
                fix="Let max be the largest that really comes, or give two profiles.",
                where=f"profile {number}",
            )


RULES: tuple[Rule, ...] = (misfits, large_topk, empty_tensors, wide_profiles)
