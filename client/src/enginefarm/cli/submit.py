"""``enginefarm submit``: send a model if the farm lacks it, and ask for engines of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError

from enginefarm.cli import arguments
from enginefarm.cli.display import upload_progress
from enginefarm.cli.output import Json, print_json, remark, say, stderr, stdout
from enginefarm.cli.session import connect
from enginefarm.cli.tables import plan_table
from enginefarm.cli.watch import watch_to_its_end
from enginefarm.client import FarmClient
from enginefarm.digest import require_digest
from enginefarm.spec import BuildSpec, Profile, Unmeasured
from enginefarm.spec_errors import explain as explain_invalid
from enginefarm.views import BuildView

_MANY = "Repeatable."


def submit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="An .onnx file, or the digest of a model.")],
    target: Annotated[
        list[str], typer.Option("--target", "-t", help=f"backend@architecture. {_MANY}")
    ],
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="input=min:opt:max, as x=1x3x160x160:1x3x320x480:4x3x960x960; other inputs after "
            "a comma. An input named again begins the next profile. Repeatable."
        ),
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(help="As 'cosine>=0.999' or 'onnxruntime@cpu:latency_p99_ms<=5'. Repeatable."),
    ] = None,
    if_unmeasured: Annotated[
        Unmeasured, typer.Option(help="What a gate does when nothing can measure it.")
    ] = Unmeasured.FAIL,
    label: Annotated[list[str] | None, typer.Option(help="key=value. Repeatable.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="As compile.optimization_level=3. Repeatable.")
    ] = None,
    synthetic: Annotated[
        list[str] | None,
        typer.Option(help="How to make an input up: ids=0:30521 or sr=16000. Repeatable."),
    ] = None,
    evaluation: Annotated[
        str | None, typer.Option(help="An .npz file of inputs, or the digest of a dataset.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of made-up inputs.")] = 0,
    name: Annotated[str | None, typer.Option(help="Name to show for the model.")] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is the most urgent.")] = 5,
    wait_for_node: Annotated[
        str, typer.Option(help="How long to wait for a node that serves a target: 10m, 2h.")
    ] = "0",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only plan; build nothing.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Plan, and say what differs from the nearest build.")
    ] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key asks for the same build only once.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Watch until it is over.")] = False,
    as_json: Json = False,
) -> None:
    """Ask for engines of a model."""
    asked: dict[str, JsonValue] = {
        "targets": [str(each) for each in arguments.targets(target)],
        "profiles": _plain(arguments.profiles(profile or [])),
        "options": arguments.options(option or []),
        "gates": arguments.gates(gate or [], if_unmeasured),
        "synthetic": arguments.synthetic(synthetic or []),
        "seed": seed,
        "priority": priority,
        "labels": dict[str, JsonValue](arguments.labels(label or [])),
        "wait_for_node": arguments.seconds(wait_for_node),
    }
    # What is misspelt is told before a long upload, not after.
    _spec({"model": f"sha256:{'0' * 64}", **asked})
    with connect(ctx) as farm:
        asked["model"] = _model(farm, model, name)
        asked["evaluation"] = _dataset(farm, evaluation)
        spec = _spec(asked)
        if dry_run or explain:
            _plan(farm, spec, explain=explain, as_json=as_json)
            return
        build, existed = farm.builds.submit(spec, idempotency_key)
        if watch:
            remark(f"build {build.id}")
            watch_to_its_end(farm, build.id, as_json=as_json)
        _accepted(build, existed=existed, as_json=as_json)


def _spec(asked: dict[str, JsonValue]) -> BuildSpec:
    try:
        return BuildSpec.model_validate(asked)
    except ValidationError as error:
        raise explain_invalid(error, BuildSpec) from error


def _plain(profiles: list[Profile]) -> JsonValue:
    return [
        {name: shapes.model_dump(mode="json") for name, shapes in profile.items()}
        for profile in profiles
    ]


def _model(farm: FarmClient, text: str, name: str | None) -> str:
    if arguments.is_reference(text):
        return require_digest(text)
    with upload_progress(stderr(), Path(text).name) as sent:
        view = farm.models.upload(Path(text), name=name, sent=sent)
    remark(f"model {view.name} {view.digest}" + (" (the farm has it already)" * view.existed))
    return view.digest


def _dataset(farm: FarmClient, text: str | None) -> str | None:
    if text is None or arguments.is_reference(text):
        return None if text is None else require_digest(text)
    with upload_progress(stderr(), Path(text).name) as sent:
        return farm.datasets.upload(Path(text), sent=sent).digest


def _plan(farm: FarmClient, spec: BuildSpec, *, explain: bool, as_json: bool) -> None:
    plan = farm.builds.plan(spec, explain=explain)
    if as_json:
        print_json(plan)
    else:
        stdout().print(plan_table(plan))


def _accepted(build: BuildView, *, existed: bool, as_json: bool) -> None:
    if as_json:
        print_json(build)
        return
    say(build.id)
    remark("this key had asked for it before" if existed else f"{build.state}")
    remark(f"watch it with: enginefarm watch {build.id}")
