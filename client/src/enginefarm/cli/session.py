"""What every command begins with: the settings, and a connection to the farm."""

from __future__ import annotations

import typer

from enginefarm.cli.settings import ClientSettings
from enginefarm.client import FarmClient


def settings_of(ctx: typer.Context) -> ClientSettings:
    """Return the settings that the command line started with."""
    settings = ctx.obj
    if not isinstance(settings, ClientSettings):
        raise TypeError(settings)
    return settings


def connect(ctx: typer.Context) -> FarmClient:
    """Return a client of the farm that is meant; the caller closes it."""
    settings = settings_of(ctx)
    return FarmClient(settings.require_url(), settings.key)
