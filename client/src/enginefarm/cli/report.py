"""``enginefarm report``: what was measured of an artifact, also of one that is quarantined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from enginefarm.cli.arguments import digest as read_digest
from enginefarm.cli.figures import size
from enginefarm.cli.grid import NOISY, NONE, Column, Grid
from enginefarm.cli.layer_lines import layer_notes, layers_grid
from enginefarm.cli.measuring_lines import (
    device_grid,
    shapes_of,
    streams_grid,
    streams_line,
    trust_lines,
)
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.portability_lines import first_starts, portability_grids, portability_notes
from enginefarm.cli.precision_lines import precision_line, precision_notes, verdict_notes
from enginefarm.cli.results import is_noisy, noise
from enginefarm.cli.session import connect
from enginefarm.counted import counted
from enginefarm.errors import NotFound
from enginefarm.repair_report import Outcome, PassReport
from enginefarm.report import (
    AccuracyReport,
    BuildReport,
    GateVerdict,
    LatencyReport,
    Machine,
    MetricReport,
)
from enginefarm.report_page import render
from enginefarm.rounding import rounded, to_places
from enginefarm.shapes_text import shapes_text
from enginefarm.verdict_report import SpeedReport
from enginefarm.views import ArtifactView

Number = float | None


def report(
    ctx: typer.Context,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="The artifact's digest.")],
    *,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write it as a page that needs no network."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what was measured of an artifact."""
    artifact, told = reported(ctx, digest)
    if page is not None:
        page.write_bytes(render(told))
        _remark_kept(artifact)
        remark(f"wrote {page}")
        return
    if as_json:
        print_json(told)
        _remark_kept(artifact)
        return
    for line in _head(artifact, told):
        say(line)
    for grid in _grids(told):
        say("")
        stdout().print(grid)
    for line in _notes(told):
        say(line)


def _remark_kept(artifact: ArtifactView) -> None:
    # The report is signed before it is known which candidate its search chooses.
    if artifact.kept_back is not None:
        remark(f"{_back(artifact)}: {artifact.kept_back}")


def _back(artifact: ArtifactView) -> str:
    return "kept back" if artifact.revoked is None else "taken back"


def reported(ctx: typer.Context, digest: str) -> tuple[ArtifactView, BuildReport]:
    """Return an artifact as the farm shows it, and its report.

    Raises:
        NotFound: there is none, or the key may not read it (``report_missing``).
    """
    with connect(ctx) as farm:
        artifact = farm.artifacts.get(read_digest(digest))
    if artifact.report is None:
        raise NotFound(
            f"The farm shows no report of {artifact.digest}.",
            code="report_missing",
            why="The key may not read it, or the artifact's report is gone.",
            fix="Use a key with the scope read or deploy.",
        )
    return artifact, artifact.report


def _head(artifact: ArtifactView, told: BuildReport) -> Iterator[str]:
    yield f"artifact  {artifact.digest}"
    yield f"state     {artifact.state}"
    if artifact.kept_back is not None:
        yield f"{_back(artifact):9} {artifact.kept_back}"
    yield f"target    {told.target}, {told.target.backend} {told.backend_version}"
    yield f"model     {artifact.model_name} {artifact.model}"
    yield f"build     {artifact.build}"
    yield f"repaired  {_repaired(told)}"
    yield f"precision {precision_line(told.precision)}"
    made = f"{told.compile.seconds:.1f} s, at most {size(told.compile.peak_memory_bytes)} of memory"
    yield f"engine    {size(told.compile.engine_bytes)}, built in {made}"
    for backend, digests in told.recipe.plugins.items() if told.recipe else ():
        yield f"plugins   {backend} {', '.join(digests)}"
    if told.compile.device_memory_bytes is not None:
        yield f"on device {size(told.compile.device_memory_bytes)} beside its weights"
    if told.compile.timings is not None:
        yield f"timings   {told.compile.timings.said}"
    if told.compile_machine is not None:
        yield f"built on  {_machine(told.compile_machine)}"
    if told.measure_machine is not None:
        yield f"measured  {_machine(told.measure_machine)}"
    if told.why_lost is not None:
        yield f"WARNING   not to be relied on: {told.why_lost}"
    if told.versions:
        yield f"versions  {', '.join(f'{name} {it}' for name, it in sorted(told.versions.items()))}"


def _repaired(told: BuildReport) -> str:
    if told.repair is None:
        return f"not tried: {told.repair_reason or 'no reason given'}"
    if not told.repair.changed:
        return "nothing was changed"
    nodes = f"{counted(told.repair.nodes_before, 'node')} became {told.repair.nodes_after}"
    return f"{told.repaired_model}, {nodes}, in {told.repair.seconds:.1f} s"


def _machine(machine: Machine) -> str:
    parts = [
        machine.hostname,
        counted(machine.cores, "core"),
        machine.cpu,
        size(machine.memory_bytes),
    ]
    if machine.device != "cpu":
        parts.append(machine.device)
    parts += [f"driver {machine.driver}"] if machine.driver else []
    parts += [f"CUDA {machine.cuda}"] if machine.cuda else []
    if machine.load_before is not None and machine.load_after is not None:
        parts.append(f"load {machine.load_before:.1f} before and {machine.load_after:.1f} after")
    return ", ".join(parts)


def _grids(told: BuildReport) -> Iterator[Grid]:
    if told.gates:
        yield _gates(told.gates)
    rows = told.repair.passes if told.repair is not None else []
    if any(row.outcome is not Outcome.NOTHING_TO_DO for row in rows):
        yield _repairs(rows)
    if told.precision is not None and told.precision.model_accuracy is not None:
        yield _accuracy(told.precision.model_accuracy, "output of the model file")
    if told.precision is not None and told.precision.sensitivity is not None:
        yield layers_grid(told.precision.sensitivity)
    if told.accuracy is not None:
        yield _accuracy(told.accuracy)
    if told.accuracy is not None and told.accuracy.metric is not None:
        yield _metric(told.accuracy.metric)
    if told.latency:
        yield _latency(told.latency)
    if told.precision_verdict is not None and told.precision_verdict.speed:
        yield _speed(told.precision_verdict.speed)
    yield from (grid for grid in _measured(told.latency) if grid.rows)
    yield from portability_grids(told)


def _measured(rows: list[LatencyReport]) -> tuple[Grid, Grid]:
    return device_grid(rows), streams_grid(rows)


def _gates(verdicts: list[GateVerdict]) -> Grid:
    grid = Grid(
        (Column("gate", head=True), Column("met"), Column("value", right=True), _free("reason"))
    )
    for verdict in verdicts:
        value = NONE if verdict.value is None else rounded(verdict.value, bound=verdict.gate)
        grid.add(verdict.gate, "yes" if verdict.met else "no", value, verdict.reason or "")
    return grid


def _repairs(rows: list[PassReport]) -> Grid:
    """Return what became of each repair that had anything to do."""
    heads = (Column("repair", head=True), Column("outcome"), Column("max error", right=True))
    grid = Grid((*heads, _free("why")))
    for row in rows:
        if row.outcome is not Outcome.NOTHING_TO_DO:
            error = row.proof.max_abs_error if row.proof is not None else None
            grid.add(row.name, str(row.outcome), _number(error), row.why)
    return grid


def _accuracy(told: AccuracyReport, head: str = "output") -> Grid:
    names = ["cosine", "worst cosine", "max error", "mean error", "SNR dB", "PSNR dB"]
    names += ["top-1", "top-5", "not finite", "worst sample"]
    numbers = tuple(Column(name, right=True) for name in names)
    grid = Grid((Column(head, head=True), *numbers))
    for row in told.outputs:
        errors = (_number(row.max_abs_error), _number(row.mean_abs_error))
        ratios = (_number(row.snr_db), _number(row.psnr_db))
        agreed = (_number(row.top1_agreement), _number(row.top5_agreement))
        cosines = (_number(row.cosine), _number(row.cosine_worst))
        worst = str(row.worst[0].sample) if row.worst else NONE
        rest = (str(row.nonfinite_engine), worst)
        grid.add(row.output, *cosines, *errors, *ratios, *agreed, *rest)
    return grid


def _metric(told: MetricReport) -> Grid:
    names = ("original", "engine", "loss", "of")
    heads = (Column("metric", head=True), *(Column(name, right=True) for name in names))
    grid = Grid((*heads, _free("why not")))
    of = NONE if told.counted is None else str(told.counted)
    values = (_number(value) for value in (told.original, told.engine, told.loss))
    name = f"{told.name} of {told.output} by {told.labels}"
    grid.add(name, *values, of, told.reason or "")
    return grid


def _latency(rows: list[LatencyReport]) -> Grid:
    names = ("P50", "P90", "P95", "P99", "min", "max", "runs", "per second")
    numbers = tuple(Column(name, right=True) for name in names)
    grid = Grid((Column("shapes", free=True, head=True), *numbers))
    for row in rows:
        shapes = shapes_of(row)
        times, mark = row.end_to_end_ms, NOISY if is_noisy(row) else ""
        all_of = (times.p50, times.p90, times.p95, times.p99, times.min, times.max)
        shown = (f"{mark}{each:.2f} ms" for each in all_of)
        grid.add(shapes, *shown, str(times.count), f"{row.throughput_qps:.1f}")
    return grid


def _speed(rows: list[SpeedReport]) -> Grid:
    names = ("engine", "twin", "times as fast", "from", "to", "pairs")
    numbers = tuple(Column(name, right=True) for name in names)
    grid = Grid((Column("beside the twin at", free=True, head=True), *numbers, Column("faster")))
    for row in rows:
        times = (f"{each:.3f} ms" for each in (row.engine_p50_ms, row.twin_p50_ms))
        found = (row.speedup, row.low, row.high)
        ratios = (NONE if each is None else to_places(each, 3) for each in found)
        faster = "yes" if row.faster else "no"
        grid.add(shapes_text(row.shapes), *times, *ratios, str(len(row.ratios)), faster)
    return grid


def _notes(told: BuildReport) -> Iterator[str]:
    if not told.measured:
        yield f"not measured: {told.reason or 'no reason given'}"
    if told.accuracy is not None:
        data = "made-up inputs" if told.accuracy.synthetic else "an evaluation dataset"
        samples = f"{told.accuracy.data}, {counted(told.accuracy.samples, 'sample')}"
        yield f"accuracy  against {told.accuracy.reference}, on {data} ({samples})"
        yield from (f"accuracy  {note}" for note in told.accuracy.notes)
    yield from precision_notes(told.precision)
    yield from verdict_notes(told.precision_verdict)
    yield from layer_notes(told.precision)
    for row in told.latency:
        if is_noisy(row):
            place = shapes_of(row) or "its one shape"
            yield f"{NOISY} at {place} not to be relied on: {noise(row)}"
        yield from trust_lines(row)
        yield from streams_line(row)
    yield from portability_notes(told)
    yield from first_starts(told)
    yield from (f"warning   {each}" for each in told.compile.warnings)


def _number(value: Number) -> str:
    return NONE if value is None else rounded(value)


def _free(name: str) -> Column:
    return Column(name, free=True)
