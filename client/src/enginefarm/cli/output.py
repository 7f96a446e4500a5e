"""What goes where: results to stdout, everything else to stderr; with ``--json`` one document.

Text that comes from elsewhere is shown without control characters, so that no name can move the
cursor, and without markup.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from enginefarm.errors import FarmError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
_WIDE = 160


def stdout() -> Console:
    """Return the console for results; one that is no terminal has room for whole tables."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console for progress and remarks."""
    return _console(stderr=True)


def print_json(value: object) -> None:
    """Print one JSON document on one line."""
    sys.stdout.write(json.dumps(_plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a line of the result."""
    stdout().print(Text(clean(text)), soft_wrap=True)


def remark(text: str) -> None:
    """Print a line that is not part of the result."""
    stderr().print(Text(clean(text)), soft_wrap=True)


def print_error(error: FarmError, *, as_json: bool) -> None:
    """Say what happened, why, and what to do; with ``as_json`` also as the one document."""
    if as_json:
        print_json({"error": error.as_failure().model_dump(mode="json")})
    console = stderr()
    head = Text("error: ", style="bold red")
    console.print(head + Text(clean(f"{error.message} [{error.code}]")), soft_wrap=True)
    for label, sentence in (("why", error.why), ("fix", error.fix)):
        if sentence:
            console.print(Text(f"  {label}: {clean(sentence)}"), soft_wrap=True)


def clean(text: str) -> str:
    """Return ``text`` without characters that would steer a terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDE)
    return console
