"""What goes where: results to stdout, everything else to stderr; with ``--json`` one document.

Text that comes from elsewhere is shown without control characters, so that no name can move the
cursor, and without markup.
"""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from enginefarm.cli.fixes import fix_in_words
from enginefarm.errors import FarmError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
_WIDE = 160
# What steers a terminal and JSON leaves as it is: DEL, the C1 controls, the order of letters.
_STEERING = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # the title of the window
)


def stdout() -> Console:
    """Return the console for results; one that is no terminal has room for whole tables."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console for progress and remarks."""
    return _console(stderr=True)


def print_json(value: object) -> None:
    """Print one JSON document on one line."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(_plain(value), ensure_ascii=not unicode)
    sys.stdout.write(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
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
    fix = fix_in_words(error.code, error.fix, error.context)
    for label, sentence in (("why", error.why), ("fix", fix)):
        if sentence:
            console.print(Text(f"  {label}: {clean(sentence)}"), soft_wrap=True)


def clean(text: str) -> str:
    """Return ``text`` without characters that would steer a terminal."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def clean_log(text: str) -> str:
    """Return a log without what would steer a terminal: a model may have written it."""
    return clean(_SEQUENCE.sub("", text.replace("\r\n", "\n")))


def let_every_letter_out() -> None:
    """Let what the terminal's encoding lacks be a question mark rather than a crash."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


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
