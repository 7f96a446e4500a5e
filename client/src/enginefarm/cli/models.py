"""``enginefarm models``: what the farm has, and putting another there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enginefarm.cli.display import upload_progress
from enginefarm.cli.output import Json, print_json, stderr, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import models_table


def models(
    ctx: typer.Context,
    *,
    upload: Annotated[
        Path | None, typer.Option(help="An .onnx file to send, with its external data.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name to show for it.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """List the models, newest first; with --upload, send one and show it."""
    with connect(ctx) as farm:
        if upload is None:
            found = farm.models.newest(limit)
        else:
            with upload_progress(stderr(), upload.name) as sent:
                found = [farm.models.upload(upload, name=name, sent=sent)]
    if as_json:
        print_json(found if upload is None else found[0])
    else:
        stdout().print(models_table(found))
