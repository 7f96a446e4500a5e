"""Run the original model in ONNX Runtime on the processor at the profiles' ends, for any target.

What the original cannot take no engine can; and what is inside it at its usual sizes tells whether
half precision would hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.finding import Finding, note_finding
from enginefarm.preflight.check import stops
from enginefarm.preflight.rules.memory import estimate
from enginefarm.preflight.subject import Subject
from workers.backends import trial
from workers.backends.base import ModelSource
from workers.backends.graph import without_folder
from workers.checking.activations import beyond_half
from workers.diagnosis import shorten


def try_original(subject: Subject, source: ModelSource, rules: Sequence[Finding]) -> list[Finding]:
    """Return the sizes that the original does not take, and what it holds that fp16 cannot."""
    if any(found.code.startswith("profile_") and stops([found]) for found in rules):
        return []  # the profiles must be mended first
    there, needed = subject.room.memory_bytes, estimate(subject)
    if there is not None and needed.weights + needed.activations > there // 2:
        return [_not_tried("It would take more than half of the memory that a job may have here.")]
    try:
        from workers.backends.ort_session import open_reference
    except ImportError:
        return [_not_tried("ONNX Runtime is not installed on this node.")]
    try:
        runner = open_reference(source.path)
    except Exception as error:  # noqa: BLE001 - the binding raises a class for each status
        if source.target.backend == "onnxruntime":
            return []  # the backend has said so
        said = shorten(without_folder(str(error), source.path), 200)
        return [_not_tried(f"ONNX Runtime does not open it: {said}")]
    found = trial.trial_runs(runner, subject.agreed_profiles, source.target)
    if not stops(found) and source.target.arch != "cpu":
        found += beyond_half(subject, source, runner)
    return found


def _not_tried(why: str) -> Finding:
    return note_finding(
        "profile_not_tried", "The original model was not tried at the profile's sizes.", why=why
    )
