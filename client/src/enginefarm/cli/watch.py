"""``enginefarm watch``: follow a build to its end; the exit code says how it ended."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from enginefarm.cli.display import follow
from enginefarm.cli.exit_codes import ExitCode, exit_code_of_build
from enginefarm.cli.output import Json, print_json, remark, say, stderr, stdout
from enginefarm.cli.results import result_lines, result_table
from enginefarm.cli.session import connect
from enginefarm.client import FarmClient
from enginefarm.errors import Unavailable
from enginefarm.views import BuildView

Build = Annotated[str, typer.Argument(metavar="BUILD", help="A build's id.")]


def watch(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Follow a build to its end.

    With --json: one event a line, and the build as the last.
    """
    with connect(ctx) as farm:
        watch_to_its_end(farm, build, as_json=as_json)


def watch_to_its_end(farm: FarmClient, build_id: str, *, as_json: bool) -> NoReturn:
    """Show a build until it is over, then what came of it; end with its exit code."""
    try:
        done = follow_as_json(farm, build_id) if as_json else follow(farm, build_id, stderr())
    except KeyboardInterrupt:
        remark(_goes_on(build_id))
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except Unavailable:
        remark(f"the farm is lost from sight; {_goes_on(build_id)}")
        raise
    if not as_json:
        show_result(farm, done)
    raise typer.Exit(exit_code_of_build(done.state))


def _goes_on(build_id: str) -> str:
    return f"the build goes on; watch it again with: enginefarm watch {build_id}"


def follow_as_json(farm: FarmClient, build_id: str) -> BuildView:
    """Print every event as one line of JSON, then the build; return it."""
    for event in farm.builds.watch(build_id):
        print_json(event)
    done = farm.builds.get(build_id)
    print_json({"kind": "result", "build": done.id, "data": done.model_dump(mode="json")})
    return done


def show_result(farm: FarmClient, build: BuildView) -> None:
    """Print the table of a build's targets, and what to do next with each."""
    stdout().print(result_table(farm, build))
    for line in result_lines(farm, build):
        say(line)
