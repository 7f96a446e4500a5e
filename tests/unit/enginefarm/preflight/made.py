"""The rules held against small models, without a runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx

from bench.hostile.made import ORT, ROWS, info, model, node, weight, whole
from bench.hostile.made import RTX89 as RTX
from enginefarm.finding import Finding
from enginefarm.preflight.check import check, facts_or_finding
from enginefarm.preflight.facts import ModelFacts
from enginefarm.preflight.subject import Room, Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.spec import Profile
from enginefarm.target import Target

__all__ = [
    "ORT",
    "ROWS",
    "RTX",
    "codes",
    "facts_of",
    "found_in",
    "info",
    "model",
    "relu",
    "weight",
    "whole",
]


def relu() -> onnx.ModelProto:
    """Return a model that no rule has anything against."""
    return model([node("Relu", ["x"], ["y"])])


def facts_of(folder: Path, made: onnx.ModelProto) -> ModelFacts:
    """Return what the reader says of a model."""
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    found = facts_or_finding(path)
    assert isinstance(found, ModelFacts), found
    return found


def found_in(
    folder: Path,
    made: onnx.ModelProto,
    target: str = RTX,
    *,
    profiles: Sequence[Profile] = (ROWS,),
    version: str | None = None,
    room: Room | None = None,
) -> list[Finding]:
    """Return all that the rules find."""
    facts = facts_of(folder, made)
    return check(
        Subject(
            facts,
            Target.parse(target),
            profiles,
            version=version,
            seen=look_at_weights(folder / "model.onnx", facts),
            room=room or Room(),
        )
    )


def codes(findings: Iterable[Finding]) -> list[str]:
    """Return the codes, in order."""
    return [each.code for each in findings]
