"""The table that a build ends with, one row for each target.

A number that was not measured is absent, and the reason stands below the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from enginefarm.cli.output import clean
from enginefarm.client import FarmClient
from enginefarm.errors import Failure, Forbidden
from enginefarm.report import AccuracyReport, BuildReport, LatencyReport
from enginefarm.state import ArtifactState, JobState
from enginefarm.views import ArtifactView, BuildView, TargetView

NONE = "–"  # noqa: RUF001 - a dash on purpose: nothing was measured
_SHORT = len("sha256:") + 12


def result_table(farm: FarmClient, build: BuildView) -> Table:
    """Return the table of a build's targets."""
    title = Text(f"{clean(build.model_name)}  {build.state}")
    table = Table(title=title, title_justify="left")
    for heading in ("target", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("engine", "build", "cosine", "max error", "P50", "P99"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("digest", no_wrap=True)
    artifacts = _artifacts(farm, build)
    for target in build.targets:
        artifact = artifacts.get(target.artifact or "")
        table.add_row(str(target.target), _state(target), *_numbers(artifact), _short(target))
    return table


def result_lines(farm: FarmClient, build: BuildView) -> list[str]:
    """Return what is to be said below the table: reasons, failures, and how to fetch."""
    lines = []
    artifacts = _artifacts(farm, build)
    for target in build.targets:
        if target.failure is not None:
            lines += _failure(target, target.failure)
        artifact = artifacts.get(target.artifact or "")
        if artifact is not None:
            lines += [f"{target.target}: {remark}" for remark in _remarks(artifact)]
        if target.artifact_state is ArtifactState.PUBLISHED:
            lines.append(f"{target.target}: enginefarm pull {target.artifact}")
    if not artifacts and any(target.artifact for target in build.targets):
        lines.append("The numbers need a key with the scope read or deploy.")
    return lines


def _artifacts(farm: FarmClient, build: BuildView) -> dict[str, ArtifactView]:
    """Return what the farm tells of each artifact; a key that only submits is told nothing."""
    try:
        return {
            target.artifact: farm.artifacts.get(target.artifact)
            for target in build.targets
            if target.artifact is not None
        }
    except Forbidden:
        return {}


def _remarks(artifact: ArtifactView) -> Iterator[str]:
    report = artifact.report
    if report is None:
        return
    if not report.measured:
        yield f"not measured: {report.reason or 'no reason given'}"
    for verdict in report.gates:
        if not verdict.met:
            yield f"gate not met: {verdict.gate} ({verdict.reason or f'it is {verdict.value}'})"


def size(count: int) -> str:
    """Return a size in bytes as a person reads it."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004 - SI units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def short(digest: str) -> str:
    """Return the beginning of a digest: enough for the eye, not enough to fetch by."""
    return f"{digest[:_SHORT]}…"


def _state(target: TargetView) -> Text:
    if target.artifact_state is not None:
        style = "green" if target.artifact_state is ArtifactState.PUBLISHED else "red"
        text = f"{target.artifact_state}{' (cached)' if target.cached else ''}"
        return Text(text, style=style)
    style = "red" if target.state is JobState.FAILED else "yellow"
    return Text(str(target.state), style=style)


def _short(target: TargetView) -> str:
    return NONE if target.artifact is None else short(target.artifact)


def _numbers(artifact: ArtifactView | None) -> tuple[str, ...]:
    if artifact is None or artifact.report is None:
        return (NONE,) * 6
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
    return (f"{min(cosines):.6f}" if cosines else NONE), f"{worst:.1e}"


def _usual(report: BuildReport) -> LatencyReport | None:
    return report.latency[0] if report.latency else None


def _latency(report: LatencyReport | None) -> tuple[str, str]:
    if report is None:
        return NONE, NONE
    times = report.end_to_end_ms
    return f"{times.p50:.2f} ms", f"{times.p99:.2f} ms"


def _failure(target: TargetView, failure: Failure) -> list[str]:
    head = f"{target.target}: {failure.message} [{failure.code}]"
    rest = (("why", failure.why), ("fix", failure.fix))
    return [head, *(f"  {label}: {text}" for label, text in rest if text)]
