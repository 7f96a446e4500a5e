"""What the local farm says to a terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from enginefarm.cli.output import stdout
from enginefarm.errors import FarmError
from localfarm.folder import Folder, Running
from localfarm.settings import PREFIX, ROOT

out = stdout()
S3_LOGIN = "s3_access_key and s3_secret_key"


def say(words: str) -> None:
    """Say one line."""
    out.print(Text(words, style="dim"))


def show_error(error: FarmError) -> None:
    """Say what happened, why, and what to do."""
    console = Console(file=sys.stderr, highlight=False)
    console.print(Text(error.message, style="bold red"))
    for part in (error.why, error.fix):
        if part:
            console.print(Text(part))


def show_running(running: Running) -> None:
    """Show where the farm's doors are, and where the keys to them."""
    folder = Folder(running.folder)
    table = Table(title="enginefarm", title_justify="left", show_header=False)
    table.add_row("API", Text(running.url))
    table.add_row("access key", Text(f"key in {short(folder.client_file)}"))
    table.add_row("API docs", Text(running.docs))
    table.add_row("Flower", Text(f"{running.flower}  (login {running.flower_login})"))
    table.add_row("S3", Text(f"{running.s3}  ({S3_LOGIN} in {short(folder.secrets_file)})"))
    table.add_row("processes", Text(", ".join(running.children)))
    out.print(table)


def say_how_it_ends(what: str, folder: Path) -> None:
    """Tell how the farm is ended, and what ``make`` has to be told again of one elsewhere."""
    elsewhere = folder.resolve() != (ROOT / ".farm").resolve()
    again = f"{PREFIX}LOCAL_FOLDER={shlex.quote(str(folder))} " if elsewhere else ""
    say(f"Ctrl-C or `{again}make stop` ends {what}; the data stays")


def short(path: Path) -> str:
    """Return a path as it can be typed here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
