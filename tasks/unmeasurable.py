"""Gates that need an engine to be run, where nobody can run it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.errors import InvalidRequest
from enginefarm.gate import OF_MODEL, Gate, Metric
from enginefarm.spec import BuildSpec
from enginefarm.target import Target

_MEASURED_AT_COMPILE = frozenset({Metric.ENGINE_BYTES})


def needs_measure(gate: Gate, target: Target) -> bool:
    """Tell whether a gate cannot be judged unless the engine of a target is run."""
    applies = gate.target is None or gate.target == target
    elsewhere = gate.metric in _MEASURED_AT_COMPILE or gate.metric.of_model_file
    return applies and not elsewhere


def refuse_unmeasurable(
    spec: BuildSpec, target: Target, reason: str, measured: Sequence[Target]
) -> None:
    """Refuse the first gate that nobody can judge; ``measured`` are the targets that are run here.

    Raises:
        InvalidRequest: code ``gate_unmeasurable``.
    """
    for gate in spec.gates:
        if needs_measure(gate, target):
            instead = _instead(gate, spec, measured)
            raise InvalidRequest(
                f"The gate on {gate.metric} cannot be judged for {target}.",
                code="gate_unmeasurable",
                why=f"{_sentence(reason.removeprefix('not run: '))}.",
                fix=f"{instead}, or wait for such a node: if_unmeasured: wait together with "
                "wait_for_node.",
                target=str(target),
                metric=str(gate.metric),
                instead=instead,
            )


def _instead(gate: Gate, spec: BuildSpec, measured: Sequence[Target]) -> str:
    """Say what can be judged here: another target, else the model file, else nothing."""
    if gate.target is None and measured:
        return f"Let the gate look only at {measured[0]}, which is measured"
    if spec.precision.stage is not None and f"{OF_MODEL}{gate.metric}" in set(Metric):
        return f"Write {OF_MODEL}{gate.metric}: it is of the model file, which any node measures"
    return "Leave the gate out"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]
