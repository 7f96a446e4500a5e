"""What a precision stage refuses, with why and what to do. None of it is tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, listed
from enginefarm.precision import PrecisionKind
from enginefarm.precision_report import PrecisionRecipe
from enginefarm.state import Blame
from workers.diagnosis import Runtime, diagnose, failure_of, shorten

NOT_RUN = "precision_not_run"
_FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])


def already_quantized(nodes: Sequence[str]) -> JobFailed:
    """Return the refusal of a model that is quantized as it comes."""
    return JobFailed(
        "The model is quantized already.",
        blame=Blame.PERSON,
        code="already_quantized",
        why=f"It has {listed(nodes, 'such nodes')}.",
        fix="Build it as it is (precision as-is), or send the model in fp32.",
    )


def without_plugins(recipe: PrecisionRecipe) -> JobFailed:
    """Return the refusal of a tool that cannot be given the operators that a model needs."""
    return JobFailed(
        f"{recipe.tool} cannot write a model in {recipe.kind} that needs plugins.",
        blame=Blame.PERSON,
        code="plugin_tool",
        why="It runs the model in an environment of its own, in which no plugin is loaded.",
        fix="Choose a precision that a tool of the node's own environment makes, or build the model"
        " as it is.",
    )


def data_refused(found: Sequence[Finding], errors: Sequence[Finding]) -> JobFailed:
    """Return the refusal of calibration data; ``found`` has the warnings as well."""
    first = errors[0]
    where = f" At: {first.where}." if first.where else ""
    rows: Any = _FINDINGS.dump_python(list(found), mode="json")
    return JobFailed(
        first.message,
        blame=Blame.PERSON,
        code=first.code,
        why=f"{first.why}{where}".strip(),
        fix=first.fix,
        findings=rows,
    )


def nothing_changed(kind: PrecisionKind, why: str) -> JobFailed:
    """Return the refusal of a result that is what the model was."""
    return JobFailed(
        f"Nothing of the model is in {kind} now.",
        blame=Blame.PERSON,
        code="precision_without_effect",
        why=why,
        fix="Name other operators or exclude less, or build the model as it is.",
    )


def nothing_to_quantize(recipe: PrecisionRecipe, hidden: int) -> JobFailed:
    """Return the refusal of a model without operators to quantize, but for ``hidden`` in branches.

    Tools look at the graph itself, and what a branch computes depends on what decides it.
    """
    ops = ", ".join(recipe.op_types)
    found = nothing_changed(recipe.kind, f"It has no {ops} that is not excluded.")
    if hidden:
        found.why = f"Its {ops} ({hidden} in all) stand inside If or Loop, where they are not seen."
        found.fix = (
            "Fix the input that decides the branch, such as --fix sr=16000: the branch is then"
            " taken in before anything is calibrated."
        )
    return found


def not_loadable(kind: PrecisionKind, said: str) -> JobFailed:
    """Return the refusal of a result that does not load."""
    return JobFailed(
        f"The model that was written in {kind} does not load.",
        blame=Blame.PERSON,
        code="precision_not_loadable",
        why=f"It says: {shorten(said, 300)}",
        fix="Exclude the nodes that it names, or choose another precision.",
    )


def not_run(said: str) -> JobFailed:
    """Return the refusal of a model that ONNX Runtime does not run, if it is not the node's fault.

    ``said``: ONNX Runtime's words.
    """
    message = "ONNX Runtime does not run the model, and by its runs a precision is judged."
    row = diagnose(said, Runtime.ONNXRUNTIME)
    if row is not None and row.blame is not Blame.PERSON:
        return failure_of([said], Runtime.ONNXRUNTIME, code=row.code, message=message)
    return JobFailed(
        message,
        blame=Blame.PERSON,
        code=NOT_RUN,
        why=f"It says: {shorten(said, 300)}",
        fix="Mend what it names, or build the model as it is (precision as-is).",
    )


def interface_differs(difference: str) -> JobFailed:
    """Return the refusal of a result that has other inputs or outputs."""
    return JobFailed(
        "The model that was written has other inputs or outputs than the one that came.",
        blame=Blame.PERSON,
        code="precision_interface_differs",
        why=f"{difference}.",
        fix="Exclude the nodes at that end of the model.",
    )


def tool_failed(kind: PrecisionKind, said: str) -> JobFailed:
    """Return the failure of a tool on a model."""
    return JobFailed(
        f"The model could not be written in {kind}.",
        blame=Blame.PERSON,
        code="precision_tool_failed",
        why=f"The tool says: {shorten(said, 300)}",
        fix="Exclude the nodes that it names, or choose another method or precision.",
    )


def overflows(outputs: Sequence[str], kind: PrecisionKind) -> JobFailed:
    """Return the refusal of a result that is not finite where the model is."""
    return JobFailed(
        f"In {kind} the model gives NaN or infinity where it gave numbers.",
        blame=Blame.PERSON,
        code="precision_not_finite",
        why=f"It does so in {listed(outputs, 'outputs')}.",
        fix="Exclude more nodes, give calibration data that covers these inputs, or choose bf16.",
    )
