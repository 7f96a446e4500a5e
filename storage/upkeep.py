"""What an operator looks after: ``python -m storage retention`` and ``verify-blobs``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from enginefarm.counted import counted
from storage import verify_blobs
from storage.database import Database, Session, now
from storage.keeping import SHELVES, Key
from storage.objects import S3Objects
from storage.retention import SAID, Rule, Terms, Thing, is_due, setting_of
from storage.settings import RetentionSettings, StorageSettings

_PAGE = 500
_INTERRUPTED = 130
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]


@dataclass
class _Due:
    count: int = 0
    size: int = 0
    oldest: datetime | None = None
    unreadable: int = 0

    def add(self, thing: Thing) -> None:
        self.count, self.size = self.count + 1, self.size + thing.size
        self.oldest = min(self.oldest or thing.since, thing.since)


def retention(*, as_json: Json = False) -> None:
    """Show what the rules of retention would remove now; nothing is removed."""
    terms = RetentionSettings().terms()
    with opened() as database:
        found = {rule: _due(database, rule, terms) for rule in Rule}
    if as_json:
        typer.echo(json.dumps({str(rule): _words(rule, terms, due) for rule, due in found.items()}))
        return
    table = Table("rule", "kept", "due", "bytes", "oldest", "setting", box=None)
    for rule, due in found.items():
        days = terms.days[rule]
        kept = ("1 day" if days == 1 else f"{days:g} days") if days else "for ever"
        oldest = f"{due.oldest:%Y-%m-%d}" if due.oldest else "-"
        table.add_row(SAID[rule], kept, str(due.count), decimal(due.size), oldest, setting_of(rule))
    _console().print(table)
    unreadable = sum(due.unreadable for due in found.values())
    if unreadable:
        typer.echo(f"{unreadable} cannot be read and stay; the reconciler's log names them.")
    typer.echo("Nothing was removed. The control loops do it, one batch after the other.")


def _due(database: Database, rule: Rule, terms: Terms) -> _Due:
    before, after = terms.before(rule, now()), None
    due = _Due()
    while before is not None:
        with database.transaction() as session:
            page = _page(session, rule, before, after)
        if not page:
            break
        for thing in page:
            due.unreadable += bool(thing.unreadable)
            if is_due(thing, before):
                due.add(thing)
        after = page[-1].key
    return due


def _page(session: Session, rule: Rule, before: datetime, after: Key | None) -> list[Thing]:
    return list(SHELVES[rule].page(session, before, after, _PAGE))


def _words(rule: Rule, terms: Terms, due: _Due) -> dict[str, object]:
    oldest = due.oldest.isoformat() if due.oldest else None
    return {"days": terms.days[rule], "due": due.count, "bytes": due.size, "oldest": oldest} | (
        {"unreadable": due.unreadable} if due.unreadable else {}
    )


def verify(
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read and hash the bytes; else believe the store.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at most.")] = None,
    after: Annotated[
        str, typer.Option(metavar="DIGEST", help="Go on where an earlier look stopped.")
    ] = "",
    as_json: Json = False,
) -> None:
    """See that the bucket has every blob that rows name, and mark those that it has lost.

    Ends with 1 if any is lost.
    """
    troubled: list[verify_blobs.Looked] = []
    seen, back, last, status = 0, 0, after, 0
    objects = S3Objects.from_settings(StorageSettings())
    try:
        with opened() as database, _bar(database, after, limit) as step:
            for blob in verify_blobs.look(database, objects, after=after, limit=limit, deep=deep):
                seen, last = seen + 1, blob.digest
                back += blob.was_lost and blob.trouble is None
                troubled += [blob] if blob.trouble is not None else []
                step()
    except KeyboardInterrupt:
        status = _INTERRUPTED
    on = last if status or seen == limit else None
    if as_json:
        rows = [
            {"digest": row.digest, "size": row.size, "trouble": row.trouble} for row in troubled
        ]
        typer.echo(json.dumps({"seen": seen, "again": back, "lost": rows, "go_on_after": on}))
    else:
        _tell(troubled, seen, back, on)
    sys.exit(status or (1 if troubled else 0))


def _tell(troubled: list[verify_blobs.Looked], seen: int, back: int, on: str | None) -> None:
    if troubled:
        table = Table("digest", "bytes", "what is wrong", box=None)
        for blob in troubled:
            table.add_row(blob.digest, str(blob.size), blob.trouble)
        _console().print(table)
    typer.echo(f"{counted(seen, 'blob')} looked at, {len(troubled)} lost, {back} there again")
    if troubled:
        typer.echo(
            "What is lost is marked: builds that need it make it anew. Or restore the bucket."
        )
    if on is not None:
        typer.echo(f"go on with: python -m storage verify-blobs --after {on}")


@contextmanager
def _bar(database: Database, after: str, limit: int | None) -> Iterator[Callable[[], None]]:
    with database.transaction() as session:
        total = verify_blobs.count(session, after)
    columns = (TextColumn("blobs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("blobs", total=min(total, limit or total))
        yield lambda: progress.advance(task)


@contextmanager
def opened() -> Iterator[Database]:
    """Give the database for one command."""
    database = Database(StorageSettings().database_url.get_secret_value(), pool_size=1)
    try:
        database.ping()
        yield database
    finally:
        database.dispose()


def _console() -> Console:
    # A digest that is cut can be looked up nowhere.
    return Console(width=None if sys.stdout.isatty() else 200)
