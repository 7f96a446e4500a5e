"""``enginefarm compare``: measure two artifacts in turns on one device; and what came of it."""

from __future__ import annotations

import time
from typing import Annotated, NoReturn

import typer
from pydantic import JsonValue, ValidationError

from enginefarm.cli import arguments
from enginefarm.cli.artifacts import Trust
from enginefarm.cli.comparison_tables import comparison_lines, comparisons_grid, shapes_grid
from enginefarm.cli.exit_codes import ExitCode, exit_code_of_build
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.session import connect, settings_of, told_if_interrupted
from enginefarm.cli.submit_options import IdempotencyKey, Priority, WaitForNode
from enginefarm.client import FarmClient
from enginefarm.comparison import OF_SINGLE_ENGINES, WHOLE_RUNS, ComparisonSpec
from enginefarm.comparison_proof import verify_comparison
from enginefarm.comparison_report import ComparisonVerdict
from enginefarm.comparison_views import ComparisonView
from enginefarm.errors import InvalidRequest, VerificationFailed
from enginefarm.spec_errors import explain
from enginefarm.trust import read_trust

LOOK_EVERY_S = 1.0
GOOD = (ComparisonVerdict.FASTER, ComparisonVerdict.ALIKE)
app = typer.Typer(
    help="Show comparisons of two artifacts, which compare asks for.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Side = Annotated[str, typer.Argument(help="An artifact's digest.")]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait for the verdict.")]
FailIfSlower = Annotated[
    bool,
    typer.Option(
        "--fail-if-slower",
        help="Wait, and end with 15 if B is slower than A or it cannot be told.",
    ),
]
On = Annotated[
    str | None, typer.Option("--on", metavar="SKU", help="The SKU to run both on, as l4.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="benchmark.OPTION=VALUE",
        help="How to measure, as benchmark.min_duration_ms=5000. Repeatable.",
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Measure, whatever was measured before.")]
Id = Annotated[str, typer.Argument(metavar="COMPARISON", help="A comparison's id.")]


def compare(  # noqa: PLR0913 - one parameter for each option
    ctx: typer.Context,
    a: Side,
    b: Side,
    *,
    wait: Wait = False,
    fail_if_slower: FailIfSlower = False,
    on: On = None,
    again: Again = False,
    option: Options = None,
    priority: Priority = 5,
    wait_for_node: WaitForNode = "0",
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> None:
    """Tell in turns on one device which of two is faster.

    diff, in contrast, measures nothing. A comparison that was made before is shown again.
    """
    spec = _spec(
        {
            "first": arguments.digest(a),
            "second": arguments.digest(b),
            "on": on,
            "again": again,
            "options": _benchmark(option or []),
            "priority": priority,
            "wait_for_node": arguments.seconds(wait_for_node),
        }
    )
    with connect(ctx) as farm:
        with told_if_interrupted("it may have been asked for; see: enginefarm comparisons list"):
            found = farm.comparisons.begin(spec, idempotency_key)
        if wait or fail_if_slower:
            _to_its_end(farm, found, fail_if_slower=fail_if_slower, as_json=as_json)
    if as_json or found.report is not None:
        _show(found, as_json=as_json)
        return
    say(found.id)
    remark(f"{found.state}; see it with: enginefarm comparisons show {found.id}")


def _benchmark(texts: list[str]) -> JsonValue:
    """Return the options of the measurement: there is no other stage to have any."""
    read = arguments.options(texts)
    for stage in read:
        if stage != "benchmark":
            raise InvalidRequest(
                f"A comparison has no options of {stage[:80]!r}.",
                code="invalid_argument",
                why="Nothing is built.",
                fix="Write it like --option benchmark.min_duration_ms=5000.",
            )
    asked = read.get("benchmark", {})
    for name in OF_SINGLE_ENGINES:
        if isinstance(asked, dict) and name in asked:
            raise InvalidRequest(
                f"A comparison has no --option benchmark.{name}.",
                code="invalid_argument",
                why=f"{WHOLE_RUNS.capitalize()}.",
                fix="Leave it out.",
            )
    return asked


def _spec(asked: dict[str, object]) -> ComparisonSpec:
    try:
        return ComparisonSpec.model_validate(asked)
    except ValidationError as error:
        raise explain(error, ComparisonSpec) from error


def _to_its_end(
    farm: FarmClient, found: ComparisonView, *, fail_if_slower: bool, as_json: bool
) -> NoReturn:
    words = f"the comparison goes on; see it with: enginefarm comparisons show {found.id}"
    with told_if_interrupted(words):
        told = None
        while not found.state.terminal:
            if found.state is not told:
                remark(f"{found.id}  {found.state}")
            told = found.state
            time.sleep(LOOK_EVERY_S)
            found = farm.comparisons.get(found.id)
    _show(found, as_json=as_json)
    if found.report is not None and fail_if_slower and found.report.verdict not in GOOD:
        raise typer.Exit(ExitCode.WORSE)
    raise typer.Exit(exit_code_of_build(found.state))


@app.command("list")
def list_comparisons(
    ctx: typer.Context,
    *,
    artifact: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Only with this artifact.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="NUMBER")] = 20,
    as_json: Json = False,
) -> None:
    """List comparisons, newest first."""
    wanted = None if artifact is None else arguments.digest(artifact)
    with connect(ctx) as farm:
        page = farm.comparisons.page(limit=limit, artifact=wanted)
    print_json(page) if as_json else stdout().print(comparisons_grid(page))


@app.command("show")
def show(
    ctx: typer.Context,
    comparison: Id,
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Refuse what the farm's keys have not signed.")
    ] = False,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Show a comparison: its numbers, and which of the two is faster."""
    with connect(ctx) as farm:
        found = farm.comparisons.get(comparison)
        if verify or trust is not None:
            keys = read_trust(settings_of(ctx).require_trust(trust)).keys
            report = verify_comparison(farm.comparisons.attestation(comparison), keys)
            # In this order: «the second is faster» says the opposite of the pair turned round.
            if (report.first.artifact, report.second.artifact) != (found.first, found.second):
                raise _another(found)
            found = found.model_copy(update={"report": report, "verdict": report.verdict})
            remark("the signature is good; what is shown is what was signed")
    _show(found, as_json=as_json)


def _show(found: ComparisonView, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    say(f"{found.id}  {found.state}")
    if found.report is not None:
        stdout().print(shapes_grid(found.report))
    for line in comparison_lines(found):
        say(line)


def _another(found: ComparisonView) -> VerificationFailed:
    return VerificationFailed(
        f"What was signed is not about the artifacts of {found.id}.",
        code="subject_missing",
        why="The farm has sent the statement of another comparison.",
        fix="Do not use it; ask the farm's operator.",
    )
