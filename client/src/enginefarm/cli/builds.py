"""``enginefarm list``, ``show``, ``cancel``, ``bump`` and ``logs``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from enginefarm.cli import arguments
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import builds_table, jobs_table
from enginefarm.cli.watch import Build, show_result
from enginefarm.client import FarmClient
from enginefarm.errors import NotFound
from enginefarm.state import BuildState
from enginefarm.views import BuildView, JobView


def list_builds(  # noqa: PLR0913 - one parameter for each filter
    ctx: typer.Context,
    *,
    state: Annotated[list[BuildState] | None, typer.Option(help="Repeatable.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of the model of this digest.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Only with this.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="key=value. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None,
    as_json: Json = False,
) -> None:
    """List builds, newest first."""
    with connect(ctx) as farm:
        page = farm.builds.page(
            limit=limit,
            cursor=cursor,
            states=state or [],
            model=model,
            target=target,
            labels=arguments.labels(label or []),
        )
    if as_json:
        print_json(page)
        return
    stdout().print(builds_table(page))
    if page.next_cursor is not None:
        remark(f"there are more: --cursor {page.next_cursor}")


def show(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Show a build: its jobs, and what came of each target."""
    with connect(ctx) as farm:
        view = farm.builds.get(build)
        if as_json:
            print_json(view)
            return
        say(f"{view.id}  {view.state}  {view.model_name}  {view.model}")
        stdout().print(jobs_table(view))
        show_result(farm, view)


def cancel(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Cancel a build; its running jobs end within seconds."""
    with connect(ctx) as farm:
        view = farm.builds.cancel(build)
    if as_json:
        print_json(view)
    else:
        say(f"{view.id} {view.state}")


def bump(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Put a build before all others of your tenant; what runs already goes on."""
    with connect(ctx) as farm:
        view = farm.builds.bump(build)
    if as_json:
        print_json(view)
    else:
        say(f"{view.id} {view.state}, first in line")


def logs(
    ctx: typer.Context,
    build: Build,
    *,
    job: Annotated[str | None, typer.Option(help="Only this job's.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt's.")] = None,
    as_json: Json = False,
) -> None:
    """Print the logs of a build's attempts."""
    with connect(ctx) as farm:
        found = _logs(farm, farm.builds.get(build), job, attempt)
    if as_json:
        print_json(
            [
                {"job": each.id, "stage": each.stage, "attempt": number, "log": text}
                for each, number, text in found
            ]
        )
        return
    for each, number, text in found:
        if len(found) > 1:
            say(f"== {each.target} {each.stage} {each.id} attempt {number}")
        # A log is the build's own words; nothing is added, wrapped or coloured.
        sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")


def _logs(
    farm: FarmClient, build: BuildView, job: str | None, attempt: int | None
) -> list[tuple[JobView, int, str]]:
    wanted = [
        (each, tried.number)
        for each in build.jobs
        if job in (None, each.id)
        for tried in each.attempts
        if attempt in (None, tried.number)
    ]
    if not wanted and (job is not None or attempt is not None):
        raise NotFound(
            f"Build {build.id} has no such attempt.",
            code="unknown_attempt",
            why="The job is not one of its own, or has not been tried that often.",
            fix=f"See its jobs with: enginefarm show {build.id}",
        )
    return [(each, number, farm.builds.log(each.id, number)) for each, number in wanted]
