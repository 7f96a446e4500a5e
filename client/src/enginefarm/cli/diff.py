"""``enginefarm diff``: how two artifacts differ, from their reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError

from enginefarm.cli.arguments import is_reference
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.grid import NONE, Column, Grid
from enginefarm.cli.output import Json, print_json, say, stdout
from enginefarm.cli.report import reported
from enginefarm.difference import Changed, Difference, LatencyDifference, Number, difference
from enginefarm.errors import InvalidRequest
from enginefarm.report import BuildReport
from enginefarm.rounding import rounded

REPORT = "report.json"
MAX_REPORT_BYTES = 16 << 20
Side = Annotated[
    str, typer.Argument(help="An artifact's digest, a folder that pull has made, or a report.json.")
]


def diff(
    ctx: typer.Context,
    a: Side,
    b: Side,
    *,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="End with 15 if B is worse than A, or nothing could be compared.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell how artifact B differs from A by their reports.

    Nothing is measured: their numbers are of two moments. compare measures both in turns.
    """
    found = difference(_told(ctx, a), _told(ctx, b))
    if as_json:
        print_json(found)
    else:
        _show(found)
    if fail_if_worse and (found.worse or not found.compared):
        raise typer.Exit(ExitCode.WORSE)


def _told(ctx: typer.Context, text: str) -> tuple[str, BuildReport]:
    """Return the name and the report of a side: from a file, or from the farm."""
    path = Path(text)
    if not is_reference(text) and path.exists():
        return text, _read(path / REPORT if path.is_dir() else path)
    artifact, told = reported(ctx, text)
    return artifact.digest, told


def _read(path: Path) -> BuildReport:
    with path.open("rb") as file:
        data = file.read(MAX_REPORT_BYTES + 1)
    try:
        if len(data) > MAX_REPORT_BYTES:
            message = f"it is above {MAX_REPORT_BYTES} bytes"
            raise ValueError(message)
        return BuildReport.model_validate(json.loads(data))
    except (ValueError, ValidationError, RecursionError) as error:
        raise InvalidRequest(
            f"{path} is no report that this client can read.",
            code="report_invalid",
            why=f"{str(error).splitlines()[0]}.",
            fix="Name the report.json of a pulled artifact, or bring the client to the farm's"
            " version.",
        ) from error


def _show(found: Difference) -> None:
    say(f"A  {found.a}")
    say(f"B  {found.b}")
    for grid in _grids(found):
        say("")
        stdout().print(grid)
    for line in _remarks(found):
        say(line)


def _grids(found: Difference) -> Iterator[Grid]:
    if found.recipe:
        grid = Grid((Column("built with", head=True), _free("A"), _free("B")))
        for changed in found.recipe:
            grid.add(changed.what, *_both(changed))
        yield grid
    grid = Grid((Column("number", head=True), *(Column(n, right=True) for n in ("A", "B"))))
    for name, row in _numbers(found):
        grid.add(name, _number(row.a), _number(row.b))
    yield grid
    if found.latency:
        yield _latency(found.latency)


def _numbers(found: Difference) -> Iterator[tuple[str, Number]]:
    yield "engine_bytes", found.engine_bytes
    for latency in found.latency:
        for row in latency.numbers:
            yield f"{row.name} ms at {_shapes(latency)}", row
    for output in found.accuracy:
        for row in output.numbers:
            yield f"{row.name} of {output.output}", row
    for output in found.model_accuracy:
        for row in output.numbers:
            yield f"{row.name} of {output.output} in the model file", row
    if found.metric is not None:
        yield found.metric.name, found.metric


def _latency(rows: list[LatencyDifference]) -> Grid:
    grid = Grid((Column("latency at", head=True, free=True), Column("B is"), _free("why")))
    for row in rows:
        grid.add(_shapes(row), str(row.verdict), row.why)
    return grid


def _remarks(found: Difference) -> Iterator[str]:
    if not found.recipe:
        yield "built with the same recipe"
    if found.accuracy_reason is not None:
        yield f"accuracy is not comparable: {found.accuracy_reason}"
    if found.model_accuracy_reason is not None:
        yield f"the model files are not comparable: {found.model_accuracy_reason}"
    if found.verdict is not None:
        one, other = _both(found.verdict)
        yield f"the verdict on the precision of A is {one}, of B {other}"
    if found.metric_reason is not None:
        yield f"the metric is not comparable: {found.metric_reason}"
    if found.worse:
        yield f"B is worse: {'; '.join(found.worse)}"
    else:
        yield "B is not seen to be worse" if found.compared else "nothing could be compared"


def _both(row: Changed) -> tuple[str, str]:
    return _text(row.a), _text(row.b)


def _text(value: JsonValue) -> str:
    return NONE if value is None else value if isinstance(value, str) else json.dumps(value)


def _number(value: float | None) -> str:
    return NONE if value is None else rounded(value)


def _shapes(row: LatencyDifference) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, it))}" for name, it in row.shapes.items()) or NONE


def _free(name: str) -> Column:
    return Column(name, free=True)
