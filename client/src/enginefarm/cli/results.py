"""The table that a build ends with, one row for each target.

A number that was not measured is absent, and the reason stands below the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue
from rich.text import Text

from enginefarm.cli.figures import size
from enginefarm.cli.fixes import fix_in_words
from enginefarm.cli.grid import NOISY, NONE, Column, Grid, short
from enginefarm.cli.layer_lines import costliest
from enginefarm.cli.output import clean
from enginefarm.cli.precision_lines import precision_warnings, verdict_line
from enginefarm.client import FarmClient
from enginefarm.errors import Failure, Forbidden, Gone
from enginefarm.finding import Severity
from enginefarm.repairs import Exactness
from enginefarm.report import AccuracyReport, BuildReport, GateVerdict, LatencyReport
from enginefarm.rounding import rounded, to_places
from enginefarm.shapes_text import shapes_text
from enginefarm.state import ArtifactState, BuildKind, JobState, Stage
from enginefarm.verdict_report import PrecisionVerdict
from enginefarm.views import ArtifactView, BuildView, TargetView

__all__ = ["NONE", "result_lines", "result_table", "short", "size"]

_HEADS = (Column("target", head=True), Column("state", head=True))
_NUMBERS = tuple(
    Column(name, right=True) for name in ("engine", "build", "cosine", "max error", "P50", "P99")
)
_LONG_NUMBER = re.compile(r"\b\d+\.\d{7,}(?:e[-+]?\d+)?\b")


def result_table(farm: FarmClient, build: BuildView) -> Grid:
    """Return the table of a build's targets."""
    title = Text(f"{clean(build.model_name)}  {build.state}")
    verdicts = any(target.verdict is not None for target in build.targets)
    heads = (*_HEADS, Column("verdict")) if verdicts else _HEADS
    grid = Grid((*heads, *_NUMBERS, Column("digest")), title=title, framed=True)
    artifacts = _artifacts(farm, build)
    for target in build.targets:
        artifact = artifacts.get(target.artifact or "")
        # The whole digest stands in the line below the table that says how to fetch it.
        digest = NONE if target.artifact is None else short(target.artifact)
        verdict = (_verdict(target),) if verdicts else ()
        state = _state(build, target, artifact)
        grid.add(str(target.target), state, *verdict, *_numbers(artifact), digest)
    return grid


def result_lines(farm: FarmClient, build: BuildView) -> list[str]:
    """Return what is to be said below the table: reasons, failures, and how to fetch."""
    compares = build.kind is BuildKind.COMPARISON
    lines = [f"enginefarm comparisons show {build.id}"] if compares else []
    artifacts = _artifacts(farm, build)
    for target in build.targets:
        if target.failure is not None:
            lines += _failure(target, target.failure)
            lines += _unjudged(target)
            lines += _left(build, target)
        lines += _warnings(build, target)
        artifact = artifacts.get(target.artifact or "")
        if artifact is not None:
            lines += [f"{target.target}: {remark}" for remark in _remarks(artifact)]
        if artifact is not None and artifact.lost:
            lines.append(
                f"{target.target}: build it again; {target.artifact} cannot be pulled meanwhile"
            )
        elif target.artifact_state is ArtifactState.PUBLISHED:
            lines.append(f"{target.target}: enginefarm pull {target.artifact}")
        elif target.artifact_state is ArtifactState.QUARANTINED and target.failure is None:
            lines.append(f"{target.target}: enginefarm report {target.artifact}")
    shown = (row for row in build.targets if row.artifact_state is not ArtifactState.REVOKED)
    if not artifacts and any(target.artifact for target in shown):
        lines.append("The numbers need a key with the scope read or deploy.")
    return lines


def _unjudged(target: TargetView) -> list[str]:
    """Return why nothing is said of the precision of a target that has failed, if it asked for one.

    Where it is infeasible, the failure itself says why.
    """
    if target.verdict is not None or target.artifact is not None or target.verdict_reason is None:
        return []
    return [f"{target.target}: precision has no verdict: {target.verdict_reason}"]


def _left(build: BuildView, target: TargetView) -> list[str]:
    """Return which repairs a failed target did not get, and why: one of them may be the cure."""
    jobs = [job for job in build.jobs if job.target == target.target]
    told = [said for job in jobs for said in job.repairs_left]
    return [f"{target.target}: repair not done, {clean(said)}" for said in told]


def _artifacts(farm: FarmClient, build: BuildView) -> dict[str, ArtifactView]:
    """Return what the farm tells of each artifact; a key that only submits is told nothing."""
    found: dict[str, ArtifactView] = {}
    for digest in (target.artifact for target in build.targets if target.artifact is not None):
        try:
            found[digest] = farm.artifacts.get(digest)
        except Gone:
            continue  # it was revoked, and the key may not look at it; the target says so
        except Forbidden:
            return {}
    return found


def _kept(artifact: ArtifactView) -> Iterator[str]:
    """Say what is not as one would expect it to be of an artifact: kept back, removed or lost."""
    if artifact.lost:
        yield f"the bucket has lost {', '.join(artifact.lost)}"
    if artifact.kept_back is not None:
        back = "" if artifact.state is ArtifactState.REVOKED else "kept back: "
        yield f"{back}{artifact.kept_back}"
    if artifact.engine_expired_at is not None:
        yield f"its engine was removed on {artifact.engine_expired_at:%Y-%m-%d} by the farm's rule"


def _remarks(artifact: ArtifactView) -> Iterator[str]:
    yield from _kept(artifact)
    report = artifact.report
    if report is None:
        return
    if not report.measured:
        yield f"not measured: {report.reason or 'no reason given'}"
    yield from repaired(report)
    yield from verdict_line(report.precision_verdict)
    yield from precision_warnings(report.precision)
    yield from costliest(report.precision)
    for verdict in report.gates:
        if not verdict.met:
            yield f"gate not met: {verdict.gate} ({_missed(verdict)})"
    if report.accuracy is not None and report.accuracy.synthetic:
        yield f"accuracy on made-up inputs ({report.accuracy.data}), not on an evaluation dataset"
    if report.accuracy is not None:
        yield from (f"accuracy: {note}" for note in report.accuracy.notes)
    usual = _usual(report)
    if usual is not None and is_noisy(usual):
        at = f" at {shapes_text(usual.shapes)}" if usual.shapes else ""
        yield f"{NOISY} the latency{at} is not to be relied on: {noise(usual)}"


def _missed(verdict: GateVerdict) -> str:
    """Return what a gate that was not met has seen, and how far it is from that."""
    if verdict.value is None:
        return verdict.reason or "not measured"
    seen = f"it is {rounded(verdict.value, bound=verdict.gate)}"
    far = "" if verdict.missed_by is None else f", missed by {verdict.missed_by:.3g}"
    return f"{seen}{far}" + (f": {verdict.reason}" if verdict.reason else "")


def repaired(report: BuildReport) -> Iterator[str]:
    """Yield what was changed before the engine was built, and what of it changes results."""
    told = report.repair
    if told is None or not told.applied:
        return
    yield f"repaired before it was built: {', '.join(row.name for row in told.applied)}"
    for row in told.applied:
        if row.exactness is Exactness.MEASURED:
            yield f"{row.name} is not exact: {row.why}"


def is_noisy(latency: LatencyReport) -> bool:
    """Tell whether whoever measured it has doubts."""
    return not latency.stable or bool(_doubts(latency))


def noise(latency: LatencyReport) -> str:
    """Return why a latency is in doubt."""
    doubts = _doubts(latency)
    if not latency.stable and not any("settled" in doubt for doubt in doubts):
        doubts.insert(0, "its median had not settled before the time limit")
    return "; ".join(doubts)


def _doubts(latency: LatencyReport) -> list[str]:
    # What the inputs were is a fact like others, and no doubt.
    notes = [note for note in latency.notes if not note.startswith("inputs: ")]
    trust = latency.trust
    return notes + [f"tainted: {why}" for why in (trust.tainted if trust is not None else [])]


def _state(build: BuildView, target: TargetView, artifact: ArtifactView | None) -> Text:
    if artifact is not None and artifact.lost:
        return Text(f"{target.artifact_state}, lost", style="red")
    if target.artifact_state is not None:
        style = "green" if target.artifact_state is ArtifactState.PUBLISHED else "red"
        return Text(f"{target.artifact_state}{_from_cache(build, target)}", style=style)
    style = "red" if target.state is JobState.FAILED else "yellow"
    return Text(str(target.state), style=style)


def _verdict(target: TargetView) -> Text:
    if target.verdict is None:
        return Text(NONE)
    style = "green" if target.verdict is PrecisionVerdict.ACCEPT else "red"
    return Text(str(target.verdict), style=style)


def _from_cache(build: BuildView, target: TargetView) -> str:
    """Say how much of a target was not made by this build; an engine may be measured anew."""
    jobs = [job for job in build.jobs if job.target == target.target and job.twin is None]
    cached = {job.stage for job in jobs if job.cached_from is not None}
    if jobs and all(job.cached_from is not None for job in jobs):
        return " (all cached)"
    return " (engine cached)" if Stage.COMPILE in cached else ""


def _numbers(artifact: ArtifactView | None) -> tuple[str, ...]:
    if artifact is None or artifact.report is None:
        return (NONE,) * len(_NUMBERS)
    report = artifact.report
    return (
        size(report.compile.engine_bytes),
        f"{report.compile.seconds:.1f} s",
        *_accuracy(report.accuracy),
        *_latency(_usual(report)),
    )


def _accuracy(report: AccuracyReport | None) -> tuple[str, str]:
    """Return the worst output's numbers."""
    if report is None or not report.outputs:
        return NONE, NONE
    cosines = [output.cosine for output in report.outputs if output.cosine is not None]
    worst = max(output.max_abs_error for output in report.outputs)
    if any(output.nan_reference for output in report.outputs):
        return "NaN", f"{worst:.1e}"
    return (to_places(min(cosines), 6) if cosines else NONE), f"{worst:.1e}"


def _usual(report: BuildReport) -> LatencyReport | None:
    return report.latency[0] if report.latency else None


def _latency(report: LatencyReport | None) -> tuple[str, str]:
    if report is None:
        return NONE, NONE
    times, mark = report.end_to_end_ms, NOISY if is_noisy(report) else ""
    return f"{mark}{times.p50:.2f} ms", f"{mark}{times.p99:.2f} ms"


def _failure(target: TargetView, failure: Failure) -> list[str]:
    head = f"{target.target}: {failure.message} [{failure.code}]"
    found = list(_findings(failure.context))
    if len(found) > 1:
        return [head, *found]
    why = _LONG_NUMBER.sub(lambda number: rounded(float(number[0])), failure.why)
    rest = (("why", why), ("fix", fix_in_words(failure.code, failure.fix, failure.context)))
    return [head, *(f"  {label}: {text}" for label, text in rest if text)]


def _warnings(build: BuildView, target: TargetView) -> Iterator[str]:
    """Yield what the check of a target warned of and let pass; a failure has told all."""
    if target.failure is not None:
        return
    for job in build.jobs:
        for found in job.findings if job.target == target.target and job.twin is None else []:
            if found.severity is Severity.WARNING:
                where = f" At: {found.where}." if found.where else ""
                yield f"{target.target}: warning: {found.message}{where} [{found.code}]"


def _findings(context: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield all that the check stage found, the grave first; the failure's own words tell one."""
    rows = context.get("findings")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    for number, row in enumerate(sorted(found, key=lambda row: row.get("severity") != "error"), 1):
        where = f" At: {row['where']}." if row.get("where") else ""
        yield f"  {number}. {row.get('severity')}: {row.get('message')}{where} [{row.get('code')}]"
        if row.get("fix"):
            yield f"     fix: {row['fix']}"
