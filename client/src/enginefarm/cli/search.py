"""``enginefarm search``: look at searches for a precision, follow and cancel them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.search_tables import (
    candidates_grid,
    progress_line,
    search_lines,
    searches_grid,
)
from enginefarm.cli.session import connect, told_if_interrupted
from enginefarm.client import FarmClient
from enginefarm.report_page.front import render_search
from enginefarm.search import SearchSpec, SearchState
from enginefarm.search_views import SearchView
from enginefarm.search_words import candidate_words

app = typer.Typer(
    help="Show searches, which submit --precision auto begins.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Id = Annotated[str, typer.Argument(metavar="SEARCH", help="A search's id.")]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write it as a page that needs no network."),
]
_EXITS = {
    SearchState.SUCCEEDED: ExitCode.OK,
    SearchState.UNMET: ExitCode.BUILD_FAILED,
    SearchState.FAILED: ExitCode.BUILD_FAILED,
    SearchState.CANCELLED: ExitCode.CANCELLED,
}


@app.command("list")
def list_searches(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, metavar="NUMBER")] = 20,
    as_json: Json = False,
) -> None:
    """List searches, newest first."""
    with connect(ctx) as farm:
        page = farm.searches.page(limit=limit)
    print_json(page) if as_json else stdout().print(searches_grid(page))


@app.command("show")
def show(ctx: typer.Context, search: Id, *, html: Html = None, as_json: Json = False) -> None:
    """Show a search: its candidates, the front, and what was chosen."""
    with connect(ctx) as farm:
        found = farm.searches.get(search)
    if html is not None:
        html.write_bytes(render_search(found))
        remark(f"wrote {html}")
    elif as_json:
        print_json(found)
    else:
        show_search(found)


@app.command("watch")
def watch(ctx: typer.Context, search: Id, *, as_json: Json = False) -> None:
    """Follow a search to its end; the exit code says how it ended."""
    with connect(ctx) as farm:
        watch_search(farm, search, as_json=as_json)


@app.command("cancel")
def cancel(ctx: typer.Context, search: Id, *, as_json: Json = False) -> None:
    """Cancel a search and its candidates."""
    with connect(ctx) as farm:
        found = farm.searches.cancel(search)
    print_json(found) if as_json else say(f"{found.id} {found.state}")


def begin(farm: FarmClient, spec: SearchSpec, key: str | None, *, as_json: bool) -> None:
    """Begin a search and follow it to its end; with JSON, only say what was begun."""
    with told_if_interrupted("the search may have been begun; see: enginefarm search list"):
        found = farm.searches.begin(spec, key)
    if as_json:
        print_json(found)
        return
    remark(f"search {found.id}")
    for note in found.notes:
        remark(f"note: {note}")
    watch_search(farm, found.id, as_json=False)


def watch_search(farm: FarmClient, search_id: str, *, as_json: bool) -> NoReturn:
    """Tell of a search until it is over; end with its exit code."""
    told: set[tuple[int, bool]] = set()
    found = None
    words = f"the search goes on; follow it with: enginefarm search watch {search_id}"
    with told_if_interrupted(words):
        for found in farm.searches.watch(search_id):
            if not as_json:
                _tell_new(found, told)
    assert found is not None  # noqa: S101 - a search is looked at once at least
    print_json(found) if as_json else show_search(found)
    raise typer.Exit(_EXITS.get(found.state, ExitCode.UNEXPECTED))


def _tell_new(search: SearchView, told: set[tuple[int, bool]]) -> None:
    """Remark on what has begun or ended since."""
    for row in search.candidates:
        what = (row.number, row.outcome is not None)
        if what in told:
            continue
        told.add(what)
        words = f"{row.number}: {candidate_words(row)}"
        if row.outcome is None:
            remark(f"{words}: {row.why}")
        else:
            remark(f"{words} is over; {progress_line(search)}")


def show_search(search: SearchView) -> None:
    """Print a search: its candidates, and what was found."""
    say(f"{search.id}  {search.state}")
    stdout().print(candidates_grid(search))
    for line in search_lines(search):
        say(line)
