"""Why a measurement cannot be made, in the words of the report."""

from __future__ import annotations

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from workers.diagnosis import Runtime, diagnose, shorten


def inputs_rejected(dataset: bool, said: str) -> JobFailed:  # noqa: FBT001 - one of two kinds of input
    """Say that the original model does not run on what it was given."""
    row = diagnose(said, Runtime.ONNXRUNTIME)
    if row is not None and row.code == "shape_mismatch":
        return JobFailed(
            "The original model does not run at the shapes it was given.",
            blame=Blame.PERSON,
            code="profile_not_runnable",
            why=f"{row.why} ONNX Runtime says: {shorten(said)}",
            fix=row.fix,
        )
    if dataset:
        return JobFailed(
            "The original model does not run on the evaluation dataset.",
            blame=Blame.PERSON,
            code="evaluation_inputs_rejected",
            why=f"ONNX Runtime says: {shorten(said)}",
            fix="Look at the dataset's shapes and values; run the model on them by itself.",
        )
    return JobFailed(
        "The original model does not run on synthetic inputs.",
        blame=Blame.PERSON,
        code="synthetic_inputs_rejected",
        why=f"ONNX Runtime says: {shorten(said)}",
        fix="Give synthetic values that it accepts (synthetic: low and high, or value, for each"
        " input that needs them), or an evaluation dataset; if its words are about shapes, give a"
        " profile of sizes that it takes.",
    )


def output_missing(name: str) -> JobFailed:
    """Say that an engine lacks an output of its model."""
    return JobFailed(
        f"The engine has no output {name[:80]!r}, which the model has.",
        blame=Blame.NODE,
        code="engine_interface_differs",
        fix="Report it: the backend has built something else.",
    )


def engine_failed(said: str) -> JobFailed:
    """Say that an engine does not run on what its original runs on."""
    return JobFailed(
        "The engine does not run.",
        blame=Blame.NODE,
        code="engine_run_failed",
        why=f"The original model runs on the same input; the engine says: {shorten(said)}",
        fix="Read the job's log; try other compile options.",
    )
