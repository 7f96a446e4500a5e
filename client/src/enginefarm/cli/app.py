"""The ``enginefarm`` command: its sub-commands, and how an error ends it.

No command prints a traceback: an error is three sentences on stderr and an exit code of
:mod:`enginefarm.cli.exit_codes`.
``ENGINEFARM_DEBUG=1`` shows the traceback as well.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from enginefarm import __version__
from enginefarm.cli import (
    artifacts,
    builds,
    cache,
    check,
    compare,
    diff,
    fleet,
    logs,
    models,
    report,
    run_engine,
    search,
    submit,
    timing_cache,
    trust,
    watch,
)
from enginefarm.cli.exit_codes import ExitCode, exit_code_of
from enginefarm.cli.output import let_every_letter_out, print_error, say
from enginefarm.cli.settings import read_settings, wants_traceback
from enginefarm.errors import FarmError, InvalidRequest
from enginefarm.nearest import did_you_mean

_NO_COMMAND = re.compile(r"No such command '(?P<name>[^']*)'.*", re.DOTALL)
app = typer.Typer(
    name="enginefarm",
    help="Submit models to an engine farm; fetch signed inference engines by hash, verify and "
    "run them.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command("submit")(submit.submit)
app.command("check")(check.check)
app.command("watch")(watch.watch)
app.command("list")(builds.list_builds)
app.command("show")(builds.show)
app.command("cancel")(builds.cancel)
app.command("bump")(builds.bump)
app.command("logs")(logs.logs)
app.command("report")(report.report)
app.command("diff")(diff.diff)
app.command("compare")(compare.compare)
app.command("pull")(artifacts.pull)
app.command("verify")(artifacts.verify)
app.command("revoke")(artifacts.revoke)
app.command("run")(run_engine.run)
app.command("nodes")(fleet.nodes)
app.command("targets")(fleet.targets)
app.command("plugins")(fleet.plugins)
app.add_typer(search.app, name="search")
app.add_typer(compare.app, name="comparisons")
app.add_typer(models.app, name="models")
app.add_typer(cache.app, name="cache")
app.add_typer(timing_cache.app, name="timing-cache")
app.command("trust")(trust.trust)


@app.callback(invoke_without_command=True)
def _start(
    ctx: typer.Context,
    *,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The farm's address.")
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    if version:
        say(f"enginefarm {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())
        raise typer.Exit
    ctx.obj = read_settings(url)


@lru_cache(maxsize=1)
def _commands() -> Callable[..., Any]:
    """Return what runs a command, which is read from the functions once in a process."""
    return get_command(app)


def invoke(args: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    let_every_letter_out()
    try:
        ended = _commands()(list(args), prog_name="enginefarm", standalone_mode=False)
        return int(ended or ExitCode.OK)
    except BrokenPipeError:
        # The reader of our output has gone; what it has not read, it does not want.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last door: nobody is shown a traceback
        told, code = _told(error)
        print_error(told, as_json="--json" in args)
        if code is ExitCode.UNEXPECTED and wants_traceback():
            traceback.print_exception(error)
        return code


def _told(error: Exception) -> tuple[FarmError, ExitCode]:
    """Return what is said of an error, and the exit code it comes to."""
    if isinstance(error, FarmError):
        return error, exit_code_of(error)
    if isinstance(error, typer.TyperException):
        return _usage(error), ExitCode.USAGE
    if isinstance(error, OSError):
        return _local(error), ExitCode.THIS_MACHINE
    told = FarmError(
        "The command line made a mistake.",
        code="internal",
        why=f"{type(error).__name__}: {error}.",
        fix="Set ENGINEFARM_DEBUG=1, repeat it, and report what is shown.",
    )
    return told, ExitCode.UNEXPECTED


def _usage(error: typer.TyperException) -> FarmError:
    said = error.format_message().strip().replace(": Value error, ", ": ")
    where = getattr(error, "ctx", None)
    command = "enginefarm" if where is None else where.command_path
    wrong = _NO_COMMAND.fullmatch(said.rstrip("."))
    if wrong is not None:
        known = getattr(getattr(where, "command", None), "commands", {})
        guess = did_you_mean(wrong["name"][:80], known)
        return InvalidRequest(
            f"There is no command {wrong['name'][:80]!r}.",
            code="usage",
            fix=f"{guess} See what there is with: {command} --help",
        )
    return InvalidRequest(
        said if said.endswith(("?", "!")) else f"{said.rstrip('.')}.",
        code="usage",
        fix=f"See what there is with: {command} --help",
    )


def _local(error: OSError) -> FarmError:
    what = error.filename2 or error.filename or "something"
    return FarmError(
        f"This machine cannot read or write {what}.",
        code="local_io",
        why=f"{error.strerror or error}.",
        fix="Check the path, its rights and the room on its disk.",
    )
