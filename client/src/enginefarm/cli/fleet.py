"""``enginefarm nodes``, ``enginefarm targets`` and ``enginefarm plugins``."""

from __future__ import annotations

from typing import Annotated

import typer

from enginefarm.cli.output import Json, print_json, remark, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import nodes_table, plugins_table, targets_table
from enginefarm.counted import counted


def nodes(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List the farm's nodes."""
    with connect(ctx) as farm:
        found = farm.fleet.nodes()
    if as_json:
        print_json(found)
    else:
        stdout().print(nodes_table(found))


def plugins(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List the plugin libraries that a build may name."""
    with connect(ctx) as farm:
        found = farm.fleet.plugins()
    if as_json:
        print_json(found)
        return
    if not found:
        remark("no live node has a plugin; an operator installs them: docs/operate/plugins.md")
        return
    stdout().print(plugins_table(found))
    first = found[0]
    remark(f"a build names one with --option plugins.{first.backend}={first.digest}")


def targets(
    ctx: typer.Context,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that no live node serves.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what the farm can build and measure now."""
    with connect(ctx) as farm:
        found = farm.fleet.targets()
    shown = [each for each in found if everything or each.compiles]
    if as_json:
        print_json(shown)
        return
    stdout().print(targets_table(shown))
    if len(shown) < len(found):
        more = counted(len(found) - len(shown), "more is", "more are")
        remark(f"{more} served by no live node: --all")
