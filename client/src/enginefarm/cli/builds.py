"""``enginefarm list``, ``show``, ``cancel`` and ``bump``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from enginefarm.cli import arguments, gate_arguments
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.precision_lines import precision_text
from enginefarm.cli.session import connect
from enginefarm.cli.tables import builds_table, jobs_table, when
from enginefarm.cli.watch import Build, show_result
from enginefarm.errors import InvalidRequest
from enginefarm.profile import as_flags
from enginefarm.state import BuildKind, BuildState
from enginefarm.views import BuildView

States = Annotated[
    list[BuildState] | None,
    typer.Option(metavar="STATE", help=f"One of {', '.join(BuildState)}. Repeatable."),
]
OfModel = Annotated[
    str | None, typer.Option(metavar="DIGEST", help="Only of the model of this digest.")
]
WithTarget = Annotated[
    str | None, typer.Option("--target", "-t", metavar="TARGET", help="Only with this.")
]
WithLabels = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only with this. Repeatable.")
]


def list_builds(  # noqa: PLR0913 - one parameter for each filter
    ctx: typer.Context,
    *,
    state: States = None,
    model: OfModel = None,
    target: WithTarget = None,
    label: WithLabels = None,
    checks: Annotated[
        bool, typer.Option("--checks", help="Only checks, which build nothing.")
    ] = False,
    only_builds: Annotated[
        bool, typer.Option("--builds", help="No checks, only what builds engines.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=200, metavar="COUNT", help="How many at most.")
    ] = 20,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Where the page before ended.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List builds and checks, newest first."""
    kind = _kind(checks=checks, only_builds=only_builds)
    with connect(ctx) as farm:
        page = farm.builds.page(
            limit=limit,
            cursor=cursor,
            states=state or [],
            model=None if model is None else arguments.digest(model),
            target=target,
            labels=arguments.labels(label or []),
            kind=kind,
        )
    if as_json:
        print_json(page)
        return
    stdout().print(builds_table(page))
    if page.next_cursor is not None:
        remark(f"there are more: --cursor {page.next_cursor}")


def _kind(*, checks: bool, only_builds: bool) -> BuildKind | None:
    if checks and only_builds:
        raise InvalidRequest(
            "Nothing is both a check and a build.",
            code="invalid_argument",
            fix="Leave out --checks or --builds; without either both are listed.",
        )
    if only_builds:
        return BuildKind.BUILD
    return BuildKind.CHECK if checks else None


def show(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Show a build: its jobs, and what came of each target."""
    with connect(ctx) as farm:
        view = farm.builds.get(build)
        if as_json:
            print_json(view)
            return
        for line in _asked(view):
            say(line)
        stdout().print(jobs_table(view))
        show_result(farm, view)


def cancel(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Cancel a build; its running jobs end within seconds."""
    with connect(ctx) as farm:
        before = farm.builds.get(build)
        view = before if before.state.terminal else farm.builds.cancel(build)
    if as_json:
        print_json(view)
    else:
        say(f"{view.id} {view.state}")
    if before.state.terminal:
        remark("it was already over; nothing was cancelled")


def bump(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Put a build before all others of your tenant."""
    with connect(ctx) as farm:
        view = farm.builds.bump(build)
    if as_json:
        print_json(view)
    else:
        say(f"{view.id} {view.state}, first in line")


def _asked(build: BuildView) -> Iterator[str]:
    """Yield what was asked for, and when."""
    yield f"{build.id}  {build.state}  {build.model_name}"
    if build.kind is BuildKind.CHECK:
        yield "kind      check: it stops after its check, and nothing is built"
    if build.spec.compare is not None:
        yield f"kind      comparison of A {build.spec.compare.first}"
        yield f"                   and B {build.spec.compare.second}"
    yield f"model     {build.model}"
    ended = "" if build.finished_at is None else f", over {when(build.finished_at)}"
    yield f"asked for {when(build.created_at)}{ended}, priority {build.priority}"
    if build.bumped_at is not None:
        yield f"bumped    {when(build.bumped_at)}: before all others of the tenant"
    if build.labels:
        yield f"labels    {', '.join(f'{name}={value}' for name, value in build.labels.items())}"
    for profile in build.spec.profiles:
        yield f"profile   {as_flags(profile)}"
    if build.spec.evaluation is not None:
        yield f"dataset   {build.spec.evaluation}"
    yield from (f"repair    {words}" for words in arguments.repair_texts(build.spec.options.repair))
    yield from (f"precision {words}" for words in precision_text(build.spec.precision))
    if build.spec.evaluation_metric is not None:
        yield f"metric    {gate_arguments.metric_text(build.spec.evaluation_metric)}"
    for gate in build.spec.gates:
        yield f"gate      {gate_arguments.gate_text(gate)}"
