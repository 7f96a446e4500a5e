"""What is said of the precision that a build asked for, on one target."""

from __future__ import annotations

from enginefarm.precision import PrecisionKind
from enginefarm.state import Blame, JobState, Stage
from enginefarm.verdict_report import PrecisionVerdict
from storage.models import Artifact, Build, Job

_OVER_THE_MODEL = frozenset({"child_crashed", "out_of_memory", "silent_limit"})
"""What a node is blamed for, and a model may well bring about on each."""
_OF_THE_DATA = "calibration_"
"""How codes begin that refuse the calibration data: other data may well do."""


def verdict_of(
    build: Build, failed: Job | None, made: Artifact | None
) -> tuple[PrecisionVerdict | None, str | None]:
    """Return the verdict and its numbers or cause; two None where there is nothing to judge.

    The report of the artifact has it, and says there if it was the twin that could not be built or
    run. Where there is no artifact, since a stage of the engine itself found that the precision
    cannot be had or run, it is infeasible. ``failed`` is that stage, never one of the twin. A fault
    of nodes says nothing of the precision, unless every node that tried went down over it; nor does
    data that is refused; what is the farm's own fault is no verdict.
    """
    if made is not None:
        told = (made.report or {}).get("precision_verdict") or {}
        verdict = told.get("verdict")
        return (PrecisionVerdict(verdict) if verdict else None), told.get("reason")
    asked = (build.spec.get("precision") or {}).get("kind", PrecisionKind.AS_IS)
    if asked == PrecisionKind.AS_IS or failed is None or failed.state is not JobState.FAILED:
        return None, None
    failure = failed.failure or {}
    if failed.stage in {Stage.REPAIR, Stage.PUBLISH} or failure.get("blame") == Blame.FARM:
        return None, None
    said = f"{failed.stage} failed: {failure.get('message')} [{failure.get('code')}]"
    if failure.get("blame") == Blame.NODE and failure.get("code") not in _OVER_THE_MODEL:
        return None, f"not known, by the fault of the nodes that tried: {said}"
    if str(failure.get("code")).startswith(_OF_THE_DATA):
        return None, f"not known, by the calibration data: {said}"
    return PrecisionVerdict.INFEASIBLE, said
