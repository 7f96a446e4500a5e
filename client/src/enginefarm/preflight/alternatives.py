"""When a target cannot take a model: which others can, by the rules alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from enginefarm.finding import Finding, note_finding
from enginefarm.preflight.subject import Room, Subject
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target


def known_targets() -> Iterator[Target]:
    """Give every target that this version's nodes have code for."""
    for backend, archs in BACKEND_ARCHITECTURES.items():
        if backend not in NOT_IN_THIS_VERSION:
            for arch in archs if backend != "onnxruntime" else ("cpu",):
                yield Target(backend=backend, arch=arch)


def able_targets(subject: Subject, others: Iterable[Target]) -> list[Target]:
    """Return those of other targets against which no rule has an error."""
    from enginefarm.preflight.check import check, stops

    return [
        other
        for other in others
        if other != subject.target
        and not stops(check(replace(subject, target=other, version=None, room=Room())))
    ]


def other_targets(subject: Subject, others: Iterable[Target] | None = None) -> list[Finding]:
    """Return a note that names the targets which can take the model, if there are any."""
    able = able_targets(subject, known_targets() if others is None else others)
    if not able:
        return []
    return [
        note_finding(
            "other_targets",
            f"By the rules alone it can be built for {', '.join(map(str, able))}.",
            fix="Ask for one of these, if that is where it may run.",
        )
    ]
