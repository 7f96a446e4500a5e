"""``enginefarm timing-cache``: the timings that TensorRT builds have left for the next."""

from __future__ import annotations

from typing import Annotated

import typer

from enginefarm.cli import arguments
from enginefarm.cli.figures import size
from enginefarm.cli.grid import Column, Digest, Grid
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import when
from enginefarm.errors import InvalidRequest
from enginefarm.timing_views import TimingCacheView

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show the timings that TensorRT builds have left for the next; hold or drop them.",
)
Namespace = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="As timing-cache list shows it.")
]


@app.command("list")
def list_caches(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List the timing caches, the one that changed last first."""
    with connect(ctx) as farm:
        found = farm.timing_caches.all()
    if as_json:
        print_json(found)
        return
    columns = ("backend", "GPU", "snapshot", "builds", "hits", "changed")
    grid = Grid((Column("namespace", head=True), *(Column(name) for name in columns)))
    for each in found:
        grid.add(
            Digest(each.namespace),
            f"{each.backend} {each.version} cu{each.cuda}",
            each.gpu,
            _held(each),
            str(each.builds),
            str(each.hits),
            when(each.updated_at),
        )
    stdout().print(grid)


@app.command("show")
def show(ctx: typer.Context, namespace: Namespace, *, as_json: Json = False) -> None:
    """Show a timing cache and its snapshots."""
    with connect(ctx) as farm:
        found = farm.timing_caches.one(arguments.digest(namespace))
    print_json(found) if as_json else _show(found)


@app.command("pin")
def pin(
    ctx: typer.Context,
    namespace: Namespace,
    generation: Annotated[
        int | None, typer.Argument(metavar="SNAPSHOT", min=1, help="The number that show gives.")
    ] = None,
    *,
    newest: Annotated[
        bool, typer.Option("--newest", help="Hold none: give builds the newest again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give every build one snapshot, and take no more into it."""
    if newest is (generation is not None):
        raise InvalidRequest(
            "Say which snapshot, or --newest.",
            code="invalid_argument",
            fix="Write it like: enginefarm timing-cache pin NAMESPACE 7",
        )
    with connect(ctx) as farm:
        found = farm.timing_caches.pin(arguments.digest(namespace), generation)
    print_json(found) if as_json else _show(found)


@app.command("drop")
def drop(ctx: typer.Context, namespace: Namespace, *, as_json: Json = False) -> None:
    """Forget every snapshot of a timing cache; builds begin it anew."""
    with connect(ctx) as farm:
        found = farm.timing_caches.drop(arguments.digest(namespace))
    if as_json:
        print_json(found)
    else:
        remark("dropped; builds that are under way do not bring it back")


def _held(found: TimingCacheView) -> str:
    if found.pinned is not None:
        return f"{found.pinned} (held)"
    return "none" if found.current is None else str(found.current)


def _show(found: TimingCacheView) -> None:
    say(f"namespace {found.namespace}")
    say(f"for       {found.backend} {found.version}, CUDA {found.cuda}, {found.gpu}")
    flags = ", ".join(f"{name}={value}" for name, value in sorted(found.flags.items()))
    say(f"options   {flags or 'the defaults'}")
    say(f"snapshot  {_held(found)}")
    say(f"served    {found.hits} entries in {found.builds} builds")
    names = ("snapshot", "entries", "size", "state", "made", "why")
    grid = Grid((Column("digest", head=True), *(Column(name) for name in names)))
    for row in found.snapshots:
        made, why = when(row.created_at), row.why or ""
        number, entries = str(row.generation), str(row.entries)
        grid.add(Digest(row.digest), number, entries, size(row.size), row.state, made, why)
    stdout().print(grid)
