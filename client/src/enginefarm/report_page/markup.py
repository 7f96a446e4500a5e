"""Markup that cannot be broken out of: whatever is not markup already is escaped.

Names of outputs, notes and machines come from models and nodes; none of them is trusted.
"""

from __future__ import annotations

import html
import re
import unicodedata

from enginefarm.rounding import rounded

VOID = frozenset({"meta", "line", "rect", "circle", "polyline"})
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
UNSEEN = "\N{REPLACEMENT CHARACTER}"
NONE = "\N{EN DASH}"
MAX_TEXT = 2000
LONG = 40
"""What is longer is no word that a person writes: a digest, a path, the name of a tensor."""


class Markup(str):
    """Text that is markup; everything else is plain."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return an element. ``class_`` stands for ``class``, ``_`` in a name for ``-``.

    What is markup already is neither escaped nor cut, in an attribute as between tags.
    """
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}="
        f'"{value if isinstance(value, Markup) else plain(value)}"'
        for key, value in attributes.items()
    )
    if name in VOID:
        return Markup(f"<{name}{said}>" if name == "meta" else f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{join(*children)}</{name}>")


def join(*parts: str) -> Markup:
    """Return parts one after another, each escaped that is not markup."""
    return Markup("".join(part if isinstance(part, Markup) else plain(part) for part in parts))


def plain(value: str | float) -> Markup:
    """Return anything as text: escaped, bounded, and without letters that nobody sees.

    A control character could end a line, and one that turns the direction of writing could make
    a text look like another.
    """
    text = number(value) if isinstance(value, float) else str(value)
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    shown = "".join(
        UNSEEN if unicodedata.category(letter) in _HIDDEN else letter
        for letter in text.replace("\n", " ").replace("\t", " ")
    )
    return Markup(html.escape(shown, quote=True))


def words(text: str) -> Markup:
    """Return text of which only what is longer than a word may be broken where a line ends.

    An error code that is cut in two is read as two, and found by no search.
    """
    shown = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    parts = re.split(r"(\s+)", shown)
    return join(*(tag("span", part, class_="d") if len(part) > LONG else part for part in parts))


def number(value: float | None) -> str:
    """Return a number in six digits, or in as many as tell it from a whole one; a dash for none."""
    if value is None:
        return NONE
    return rounded(value) if abs(value) < 1e9 else f"{value:.6g}"  # noqa: PLR2004 - longer ones are read as powers


def table(heads: list[str], rows: list[list[str]], *, left: int = 1) -> Markup:
    """Return a table; the first ``left`` columns hold words, the others numbers."""
    kinds = ["w" if place < left else "n" for place in range(len(heads))]
    head = join(*(tag("th", name, class_=kind) for name, kind in zip(heads, kinds, strict=True)))
    body = [
        tag("tr", *(_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in rows
    ]
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", *body))


def _cell(text: str, kind: str) -> Markup:
    return tag("td", words(text) if kind == "w" else text, class_=kind)
