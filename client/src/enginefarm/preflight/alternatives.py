"""When a target cannot take a model: which others can, by the rules alone, and now. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from enginefarm.finding import Finding, note_finding
from enginefarm.preflight.subject import Room, Subject
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target

_DOUBTED = frozenset({"unsupported_operator", "operator_mistaken"})
_NAMED = re.compile(r"[a-z0-9-]+@[a-z0-9_]+")


def known_targets() -> Iterator[Target]:
    """Give every target that this version's nodes have code for."""
    for backend, archs in BACKEND_ARCHITECTURES.items():
        if backend not in NOT_IN_THIS_VERSION:
            for arch in archs if backend != "onnxruntime" else ("cpu",):
                yield Target(backend=backend, arch=arch)


def able_targets(subject: Subject, others: Iterable[Target]) -> list[Target]:
    """Return those of other targets against which no rule speaks.

    Where an operator is in no table, a warning is all that can be said of it; nothing is promised.
    """
    from enginefarm.preflight.check import check, stops

    return [
        other
        for other in others
        if other != subject.target
        and not stops(found := check(_for(subject, other)))
        and _DOUBTED.isdisjoint(each.code for each in found)
    ]


def _for(subject: Subject, other: Target) -> Subject:
    """Return the same model for another target; plugins are those of one backend."""
    plugins = subject.plugins and other.backend == subject.target.backend
    return replace(subject, target=other, version=None, room=Room(), plugins=plugins)


def other_targets(subject: Subject, others: Iterable[Target] | None = None) -> list[Finding]:
    """Return a note that names the targets which can take the model, if there are any."""
    able = list(map(str, able_targets(subject, known_targets() if others is None else others)))
    if not able:
        return []
    served = subject.room.served
    now = [name for name in able if served is not None and name in served]
    return [_note(able, "" if served is None else _served(able, now), now)]


def without_refused(found: Sequence[Finding], refused: Collection[str]) -> list[Finding]:
    """Return the findings of a target without a word for other targets that were refused as well.

    The note of each target is by the rules alone; a runtime may have refused what it names.
    """
    kept = []
    for each in found:
        named = _NAMED.findall(each.message) if each.code == "other_targets" else []
        able = [name for name in named if name not in refused]
        if len(able) == len(named):
            kept.append(each)
        elif able:
            kept.append(_note(able, why="", now=[]))
    return kept


def _note(able: list[str], why: str, now: list[str]) -> Finding:
    return note_finding(
        "other_targets",
        f"By the rules alone it can be built for {', '.join(able)}.",
        why=why,
        fix=f"Ask for {' or '.join(now) or 'one of these'}, if that is where it may run.",
    )


def _served(able: list[str], now: list[str]) -> str:
    if now == able:
        return "Live nodes of the farm build for all of these now."
    if not now:
        return "No live node of the farm builds for any of these now."
    return f"Live nodes of the farm build for {', '.join(now)} now, and for none of the others."
