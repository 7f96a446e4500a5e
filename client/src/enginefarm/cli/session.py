"""What every command begins with: the settings, and a connection to the farm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.output import remark
from enginefarm.cli.settings import ClientSettings
from enginefarm.client import FarmClient
from enginefarm.errors import Unauthenticated


def settings_of(ctx: typer.Context) -> ClientSettings:
    """Return the settings that the command line started with."""
    settings = ctx.obj
    if not isinstance(settings, ClientSettings):
        raise TypeError(settings)
    return settings


@contextmanager
def connect(ctx: typer.Context) -> Iterator[FarmClient]:
    """Give a client of the farm that is meant, and close it."""
    settings = settings_of(ctx)
    with FarmClient(settings.require_url(), settings.key) as farm:
        try:
            yield farm
        except Unauthenticated as error:
            if settings.key is None and settings.withheld is not None:
                error.why = (
                    f"The key in {settings.file} belongs to {settings.withheld}, so it was not "
                    f"sent to {farm.url}."
                )
                error.fix = f"Put a key of {farm.url} in ENGINEFARM_KEY, or leave out --url."
            raise
        except KeyboardInterrupt:
            # Who knows what goes on without us has said so, and ended the command.
            remark("interrupted")
            raise typer.Exit(ExitCode.INTERRUPTED) from None


@contextmanager
def told_if_interrupted(words: str) -> Iterator[None]:
    """Say what becomes of the work when somebody presses Ctrl-C, and end the command."""
    try:
        yield
    except KeyboardInterrupt:
        remark(f"interrupted: {words}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
