"""``enginefarm cache``: what pulls have kept on this machine, and how to make it smaller."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from enginefarm.cli import arguments
from enginefarm.cli.figures import size
from enginefarm.cli.grid import Column, Digest, Grid
from enginefarm.cli.output import Json, print_json, remark, say, stdout
from enginefarm.cli.session import settings_of
from enginefarm.cli.tables import when
from enginefarm.counted import counted
from enginefarm.errors import InvalidRequest
from enginefarm.install import BlobCache
from enginefarm.install.room import Kept, kept_in
from enginefarm.install.room import prune as make_smaller

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show what pulls have kept here, and make it smaller.",
)
Folder = Annotated[
    Path | None, typer.Option("--cache", metavar="FOLDER", help="Where fetched files are kept.")
]
_BYTES = re.compile(r"^(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>[kMGT]?)B?$")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@app.command("list")
def list_kept(ctx: typer.Context, *, cache: Folder = None, as_json: Json = False) -> None:
    """List what is kept, what was used last first."""
    folder = cache or settings_of(ctx).cache
    found = kept_in(BlobCache(folder))
    if as_json:
        print_json({"folder": str(folder), "files": [_plain(each) for each in found]})
        return
    grid = Grid(
        (Column("file", head=True), Column("size", right=True), Column("used"), Column("note")),
    )
    for each in found:
        grid.add(Digest(each.digest), size(each.size), when(_used(each)), _note(each))
    stdout().print(grid)
    remark(f"{_sum(found)} in {folder}")


@app.command("prune")
def prune(
    ctx: typer.Context,
    *,
    keep_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Keep at most so much, as 20GB; what was used last stays."
        ),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Remove what was not used for, as 30d.")
    ] = None,
    cache: Folder = None,
    as_json: Json = False,
) -> None:
    """Remove what was not used for long; what is installed stays installed."""
    if keep_bytes is None and older_than is None:
        raise InvalidRequest(
            "What is to go was not said.",
            code="usage",
            fix="Give --keep-bytes 20GB, or --older-than 30d, or both.",
        )
    done = make_smaller(
        BlobCache(cache or settings_of(ctx).cache),
        keep_bytes=None if keep_bytes is None else _bytes(keep_bytes),
        older_than_s=None if older_than is None else arguments.age(older_than, "--older-than"),
    )
    if as_json:
        print_json(
            {
                "removed": [_plain(each) for each in done.removed],
                "left": [_plain(each) for each in done.left],
            }
        )
        return
    say(f"removed {_sum(done.removed)}; left {_sum(done.left)}")
    shared = sum(each.size for each in done.removed if each.shared)
    if shared:
        remark(f"{size(shared)} of it is still on the disk: an install folder has the same bytes")


def _bytes(text: str) -> int:
    match = _BYTES.match(text.strip())
    if match is None:
        raise InvalidRequest(
            f"--keep-bytes {text[:80]!r} cannot be read.",
            code="invalid_argument",
            fix="Write it like 500MB, 20GB or 0.",
        )
    return int(float(match["count"]) * _UNITS[match["unit"]])


def _sum(found: list[Kept]) -> str:
    return f"{counted(len(found), 'file')}, {size(sum(each.size for each in found))}"


def _used(each: Kept) -> datetime:
    return datetime.fromtimestamp(each.used_at, UTC)


def _note(each: Kept) -> str:
    if not each.whole:
        return "only its beginning"
    return "also installed" if each.shared else ""


def _plain(each: Kept) -> dict[str, object]:
    return {
        "digest": each.digest,
        "size": each.size,
        "used_at": _used(each).isoformat(),
        "installed": each.shared,
        "whole": each.whole,
    }
