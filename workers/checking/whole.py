"""The check stage: the pure rules, then all that needs a runtime, as one list without repetitions.

Nothing stops at the first error where something later can still speak. Only a file that cannot be
read, and a job that certainly has too little memory, leave the runtime unasked.
"""

from __future__ import annotations

from enginefarm.finding import Finding, note_finding
from enginefarm.preflight.alternatives import other_targets
from enginefarm.preflight.check import check, facts_or_finding, ordered, stops
from enginefarm.preflight.facts import ModelFacts
from enginefarm.preflight.rules.memory import needs_more_than_here
from enginefarm.preflight.subject import Room, Subject
from enginefarm.preflight.weights import look_at_weights
from workers.backends import graph
from workers.backends.base import Backend, ModelSource, ProgressSink
from workers.checking.merging import merged
from workers.checking.trials import try_original

__all__ = ["check_model"]


def check_model(
    source: ModelSource,
    backend: Backend,
    room: Room,
    sink: ProgressSink,
    *,
    plugins: bool = False,
) -> list[Finding]:
    """Return all that is wrong with a model for a target, and what is worth knowing.

    ``plugins``: the backend has been given some.

    Raises:
        JobFailed: the node itself lacks what it said it had.
    """
    sink.report(0.1, "reading the model")
    facts = facts_or_finding(source.path)
    if isinstance(facts, Finding):
        return [facts]
    version = backend.describe([]).version
    subject = _subject(facts, source, version, room, plugins=plugins)
    rules = check(subject)
    if any(found.code == "memory_short" for found in rules):
        return ordered([*rules, *other_targets(subject)])
    if needs_more_than_here(subject):
        return ordered([*rules, _not_asked()])
    sink.report(0.3, "asking the ONNX checker")
    said = anywhere = graph.check_file(source.path, others=subject.left_to_plugins(""))
    if not stops(said):
        sink.report(0.4, "asking the runtime")
        said = [*said, *backend.check(source)]
        sink.report(0.6, "trying the original")
        anywhere = try_original(subject, source, rules)
        said = [*said, *anywhere]
    found = merged(rules, said)
    # What is wrong with the model itself is so for every other target, too.
    elsewhere = stops(found) and not stops(anywhere)
    return ordered([*found, *(other_targets(subject) if elsewhere else [])])


def _subject(
    facts: ModelFacts, source: ModelSource, version: str, room: Room, *, plugins: bool
) -> Subject:
    return Subject(
        facts,
        source.target,
        source.profiles,
        source.options,
        version=version,
        seen=look_at_weights(source.path, facts),
        room=room,
        plugins=plugins,
    )


def _not_asked() -> Finding:
    return note_finding(
        "profile_not_tried",
        "Neither the runtime nor the original was asked.",
        why="This node has too little memory for it; the build goes on where there is more.",
    )
