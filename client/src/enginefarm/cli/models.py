"""``enginefarm models``: what the farm has, and putting another there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginefarm.cli.display import upload_progress
from enginefarm.cli.output import Json, print_json, remark, stderr, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import models_table
from enginefarm.views import ModelView


def models(
    ctx: typer.Context,
    *,
    upload: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An .onnx file to send, with its external data."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name to show for it.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, metavar="COUNT", help="How many at most.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """List the models, newest first, or send one."""
    with connect(ctx) as farm:
        if upload is None:
            rows = farm.models.newest(limit)
            print_json(rows) if as_json else stdout().print(models_table(rows))
            return
        with upload_progress(stderr(), upload.name) as sent:
            model = farm.models.upload(upload, name=name, sent=sent)
    told_name(model, name)
    print_json(model) if as_json else stdout().print(models_table([model]))


def told_name(model: ModelView, name: str | None) -> None:
    """Say so when a name was asked for that the farm does not take."""
    if name is not None and model.name != name:
        remark(f"--name is not used: the farm has these bytes already, as {model.name}")
