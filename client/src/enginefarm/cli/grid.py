"""Rows for people: a table where it fits whole, else one block for each row.

A number, a target or a state that is cut in two is worse than none, so no column is ever narrower
than its longest word. What does not fit as a table is not squeezed but told one row after another.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from enginefarm.cli.output import clean

NONE = "–"  # noqa: RUF001 - a dash on purpose: there is nothing to tell
NOISY = "~"
"""Stands before a number that cannot be relied on; a line below the table says why."""
_SHORT = len("sha256:") + 12
_READABLE = 16
_GAP, _INDENT = 2, 2


@dataclass(frozen=True)
class Digest:
    """A digest: whole where there is room for it, else its beginning."""

    text: str


Cell = str | Text | Digest


@dataclass(frozen=True)
class Column:
    """A heading, and how what stands below it may be shown.

    ``free``: it may be broken between words. ``right``: it is a number. ``head``: in a block it
    needs no name.
    """

    name: str
    free: bool = False
    right: bool = False
    head: bool = False


@dataclass(frozen=True)
class Grid:
    """Rows below headings; rich renders it for the width there is."""

    columns: tuple[Column, ...]
    title: Text | None = None
    framed: bool = False
    rows: list[tuple[Cell, ...]] = field(default_factory=list)

    def add(self, *row: Cell) -> None:
        """Add a row."""
        if len(row) != len(self.columns):
            raise ValueError(row)
        self.rows.append(row)

    def fits(self, width: int, *, short: bool = True) -> bool:
        """Tell whether no word of a table is broken at this width; ``short``: with digests cut."""
        return self._need(short=short) <= width

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Show a table if it fits, else blocks."""
        width = options.max_width
        if self.fits(width):
            yield self._table(short=not self.fits(width, short=False))
        else:
            yield from self._blocks(width)

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        """Say how wide it is: as wide as it may be."""
        return Measurement(options.max_width, options.max_width)

    def _need(self, *, short: bool) -> int:
        inner = 3 if self.framed else _GAP
        frame = 1 if self.framed else 0
        return sum(self._least(at, short=short) + inner for at in range(len(self.columns))) + frame

    def _least(self, at: int, *, short: bool) -> int:
        texts = [self.columns[at].name]
        texts += [_text(row[at], short=short).plain for row in self.rows]
        lines = [line for text in texts for line in text.split("\n")]
        whole = max(map(len, lines))
        if not self.columns[at].free:
            return whole
        words = max((len(word) for line in lines for word in line.split()), default=0)
        return max(words, min(whole, _READABLE))

    def _table(self, *, short: bool) -> Table:
        if self.framed:
            table = Table(title=self.title, title_justify="left")
        else:
            table = Table(title=self.title, box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for at, column in enumerate(self.columns):
            table.add_column(
                column.name,
                justify="right" if column.right else "left",
                no_wrap=not column.free,
                min_width=self._least(at, short=short),
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(_text(cell, short=short) for cell in row))
        return table

    def _blocks(self, width: int) -> Iterator[Text]:
        if self.title is not None:
            yield self.title
        for row in self.rows:
            pairs = [
                (column, _text(cell, short=True))
                for column, cell in zip(self.columns, row, strict=True)
            ]
            heads = [text for column, text in pairs if column.head and text.plain]
            yield Text(" " * _GAP, end="\n").join(heads)
            rest = [(column.name, text) for column, text in pairs if not column.head]
            yield from _flow([pair for pair in rest if pair[1].plain not in {"", NONE}], width)


def short(digest: str) -> str:
    """Return the beginning of a digest: enough for the eye, not enough to fetch by."""
    return digest if len(digest) <= _SHORT else f"{digest[:_SHORT]}…"


def _text(cell: Cell, *, short: bool) -> Text:
    """Return a cell as it is: what a name contains is no markup, and steers no terminal."""
    if isinstance(cell, Text):
        return cell
    if isinstance(cell, Digest):
        return Text(_begin(cell.text) if short else cell.text)
    return Text(clean(cell))


_begin = short


def _flow(pairs: Iterable[tuple[str, Text]], width: int) -> Iterator[Text]:
    """Yield lines of names and values, as many on each as fit whole."""
    line = Text()
    for name, value in pairs:
        unit = Text.assemble((f"{name} ", "dim"), value)
        lone = "\n" in value.plain or len(unit) + _INDENT > width
        if line.plain and (lone or len(line) + 3 + len(unit) > width):
            yield line
            line = Text()
        if lone:
            yield from _alone(name, value.plain, width)
        else:
            line.append(" " * (3 if line.plain else _INDENT))
            line.append_text(unit)
    if line.plain:
        yield line


def _alone(name: str, value: str, width: int) -> Iterator[Text]:
    """Yield a value that needs lines of its own, broken between words."""
    begin = " " * _INDENT + f"{name} "
    for part in value.split("\n"):
        room = max(width - len(begin), 1)
        # Only a word that is longer than a line is broken, as it would be by the terminal.
        for each in textwrap.wrap(part, room, break_on_hyphens=False) or [""]:
            yield Text.assemble((begin, "dim"), each)
            begin = " " * len(begin)
