"""``enginefarm watch``: follow a build to its end; the exit code says how it ended."""

from __future__ import annotations

from typing import Annotated

import typer

from enginefarm.cli.display import follow
from enginefarm.cli.exit_codes import exit_code_of_build
from enginefarm.cli.output import Json, print_json, say, stderr, stdout
from enginefarm.cli.results import result_lines, result_table
from enginefarm.cli.session import connect
from enginefarm.client import FarmClient
from enginefarm.views import BuildView

Build = Annotated[str, typer.Argument(metavar="BUILD", help="A build's id.")]


def watch(ctx: typer.Context, build: Build, *, as_json: Json = False) -> None:
    """Follow a build to its end (with --json: one event a line, and the build as the last)."""
    with connect(ctx) as farm:
        if as_json:
            done = follow_as_json(farm, build)
        else:
            done = follow(farm, build, stderr())
            show_result(farm, done)
    raise typer.Exit(exit_code_of_build(done.state))


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
