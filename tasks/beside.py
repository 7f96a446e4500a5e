"""A report judged: by its gates, and by what became of the engine's twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginefarm.precision import PrecisionKind
from enginefarm.report import BuildReport
from enginefarm.spec import BuildSpec
from enginefarm.state import PRECISION_STAGES, JobState, Stage
from enginefarm.target import Target
from enginefarm.verdict_report import PairedRuns, TwinReport
from storage.models import Build, Job
from tasks.gates import Named, applying, judge
from tasks.recipe import lets_lost_out
from tasks.results import engine_of
from tasks.twin import twin_kind
from tasks.verdict import Beside, verdict_on


def judged(
    build: Build,
    stages: Mapping[Stage, Job],
    twin: Mapping[Stage, Job],
    report: BuildReport,
    named: Named,
) -> BuildReport:
    """Return a report with the verdicts of its gates, and the one on its precision."""
    spec = BuildSpec.model_validate(build.spec)
    gates = judge(spec.gates, report, named)
    measured = stages.get(Stage.BENCHMARK)
    found: dict[str, Any] = (measured.result or {}).get("facts", {}) if measured else {}
    beside = beside_of(spec.precision.kind, twin, found, report.reason)
    pairs = list(zip(applying(spec.gates, report), gates, strict=True))
    verdict = verdict_on(spec.precision, report, pairs, beside, lets_lost_out=lets_lost_out(spec))
    return report.model_copy(update={"gates": gates, "precision_verdict": verdict})


def beside_of(
    asked: PrecisionKind,
    jobs: Mapping[Stage, Job],
    found: Mapping[str, Any],
    unmeasured: str | None,
) -> Beside:
    """Return what is known of the twin whose jobs these are.

    ``found`` has the facts of the benchmark; ``unmeasured`` says why there is none.
    """
    if unmeasured is not None:
        return Beside(None, reason=unmeasured)
    if not jobs:
        return Beside(None, reason="the build was planned without a twin")
    twin = _twin(asked, jobs)
    rows = [PairedRuns.model_validate(row) for row in found.get("comparison", [])]
    if twin.engine is None:
        return Beside(twin, reason=_not_built(twin.precision, jobs))
    told = found.get("comparison_reason") or "the node that measured it knows no twins"
    return Beside(twin, rows, reason=told)


def _twin(asked: PrecisionKind, jobs: Mapping[Stage, Job]) -> TwinReport:
    compiled = jobs[Stage.COMPILE]
    made = compiled.state is JobState.SUCCEEDED
    engine = engine_of(compiled.result) if made else None
    kind, why = _kind(asked, jobs)
    return TwinReport(
        precision=kind,
        why=why,
        engine=engine["digest"] if engine else None,
        engine_bytes=engine["size"] if engine else None,
        compile_key=compiled.key if made else None,
    )


def _kind(asked: PrecisionKind, jobs: Mapping[Stage, Job]) -> tuple[PrecisionKind, str]:
    """Return the precision that the twin was really built in, and why that one."""
    compiled = jobs[Stage.COMPILE]
    kind, target = PrecisionKind(compiled.twin or ""), Target.parse(compiled.target)
    cast = next((jobs[stage] for stage in PRECISION_STAGES if stage in jobs), None)
    if cast is not None and cast.state is not JobState.SUCCEEDED:
        return PrecisionKind.AS_IS, f"the model could not be had in {kind}: {_ended(cast)}"
    if kind is not PrecisionKind.AS_IS:
        return kind, f"{target.arch} computes in {kind}, which costs no calibration"
    if twin_kind(asked, target) is not PrecisionKind.AS_IS:
        return kind, "no live node took the stage cast when the build was planned"
    if twin_kind(PrecisionKind.INT8, target) is PrecisionKind.AS_IS:
        return kind, f"{target} does not compute in fp16"
    return kind, f"without {asked} it would be built as it came"


def _not_built(kind: PrecisionKind, jobs: Mapping[Stage, Job]) -> str:
    """Say that it is the twin that is not there, and how to see what is wrong with it."""
    model = "the model as it came" if kind is PrecisionKind.AS_IS else f"the model in {kind}"
    return (
        f"the twin, {model}, could not be built, while the engine itself was: {_why_not(jobs)};"
        " a build of that model alone shows what is wrong with it"
    )


def _why_not(jobs: Mapping[Stage, Job]) -> str:
    for stage in (Stage.REPAIR, Stage.CHECK, Stage.COMPILE):
        if stage in jobs and jobs[stage].state is not JobState.SUCCEEDED:
            return f"{stage} {_ended(jobs[stage])}"
    return "its engine is gone"


def _ended(job: Job) -> str:
    """Say how a job ended that has not succeeded."""
    failure = job.failure or {}
    told = f": {failure['message']} [{failure['code']}]" if failure else ""
    return f"{job.state}{told}"
