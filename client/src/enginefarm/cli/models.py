"""``enginefarm models``: what the farm has, and putting another there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from enginefarm.cli.display import bytes_progress
from enginefarm.cli.figures import size
from enginefarm.cli.output import Json, print_json, remark, stderr, stdout
from enginefarm.cli.session import connect, settings_of, told_if_interrupted
from enginefarm.cli.tables import models_table
from enginefarm.client import FarmClient, read_local_model
from enginefarm.views import ModelView

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List the models that the farm has, or send one.",
)


@app.callback()
def models(
    ctx: typer.Context,
    *,
    upload: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An .onnx file to send, as push does."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name to show for it.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=200, metavar="COUNT", help="How many at most.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """List the models, newest first, or send one."""
    if ctx.invoked_subcommand is not None:
        return
    if upload is not None:
        _push(ctx, upload, name, as_json=as_json)
        return
    with connect(ctx) as farm:
        found = farm.models.newest(limit)
    print_json(found) if as_json else stdout().print(models_table(found))


@app.command("push")
def push(
    ctx: typer.Context,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.onnx", help="Sent with its external data.")
    ],
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name to show for it.")] = None,
    as_json: Json = False,
) -> None:
    """Send a model; one that was interrupted goes on where it stopped."""
    _push(ctx, model, name, as_json=as_json)


def _push(ctx: typer.Context, model: Path, name: str | None, *, as_json: bool) -> None:
    with (
        connect(ctx) as farm,
        told_if_interrupted("what was sent is kept a while; the same command goes on from there"),
    ):
        found = send_model(farm, model, name, settings_of(ctx).cache)
        told_name(found, name)
    print_json(found) if as_json else stdout().print(models_table([found]))


def send_model(farm: FarmClient, path: Path, name: str | None, cache: Path) -> ModelView:
    """Send a model and show how far hashing, sending and reading it again are."""
    console = stderr()

    def resumed(there: int, total: int) -> None:
        line = f"resumed: {size(there)} of {size(total)} were there"
        console.print(Text(line), soft_wrap=True)

    with bytes_progress(console) as told:
        local = read_local_model(path, partial(told, f"hashing {path.name}"))
        return farm.models.upload(
            local,
            name=name,
            sent=partial(told, f"sending {path.name}"),
            verified=partial(told, f"the farm reads {path.name}"),
            remember=cache / "uploads",
            resumed=resumed,
        )


def told_name(model: ModelView, name: str | None) -> None:
    """Say so when a name was asked for that the farm does not take."""
    if name is not None and model.name != name:
        remark(f"--name is not used: the farm has these bytes already, as {model.name}")
