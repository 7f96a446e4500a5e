"""``enginefarm run``: try an engine that was pulled, after verifying it, on made-up inputs.

An engine is code, so nothing is loaded that has not been verified in the same breath. numpy and
onnxruntime belong to the optional extra ``run`` and are imported by name, late: every
other command works without them.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from pydantic import JsonValue

from enginefarm.cli import arguments
from enginefarm.cli.artifacts import Trust
from enginefarm.cli.output import Json, print_json, say
from enginefarm.cli.plugin_arguments import libraries_for
from enginefarm.cli.run_session import RUNTIME, first_line, opened, require_runs_here
from enginefarm.cli.run_shapes import require_not_fixed, shapes_of_run, unknown_input
from enginefarm.cli.session import settings_of
from enginefarm.cli.settings import tell_nobody
from enginefarm.errors import FarmError, InvalidRequest
from enginefarm.install import Installed, verify_folder
from enginefarm.spec import SyntheticInput
from enginefarm.trust import read_trust

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    **{f"tensor({kind})": kind for kind in ("int8", "int16", "int32", "int64")},
    **{f"tensor(u{kind})": f"u{kind}" for kind in ("int8", "int16", "int32", "int64")},
}


_Shapes = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=SHAPE", help="As x=1x3x320x480. Repeatable."),
]
_Synthetic = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=VALUES", help="As ids=0:30521 or sr=16000. Repeatable."),
]
_Libraries = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="A library with operators of the model's own. It is code. Repeatable."
    ),
]


def run(  # noqa: PLR0913 - one parameter for each option
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that pull has made.")],
    *,
    trust: Trust = None,
    shape: _Shapes = None,
    outside_profile: Annotated[
        bool, typer.Option("--outside-profile", help="Also a shape that it was not built for.")
    ] = False,
    synthetic: _Synthetic = None,
    plugin: _Libraries = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="NUMBER", help="Seed of the made-up inputs.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Run an onnxruntime engine once on made-up inputs."""
    how = arguments.made_up(synthetic or [])
    asked = arguments.shapes(shape or [])
    keys = read_trust(settings_of(ctx).require_trust(trust)).keys
    installed = verify_folder(folder, keys)
    require_runs_here(installed.config)
    libraries = libraries_for(installed.config.plugins, plugin or [])
    require_not_fixed(installed.config, [*how, *asked])
    shapes = shapes_of_run(installed.config, asked, outside_profile=outside_profile)
    tell_nobody()
    numpy, runtime = _extra("numpy"), _extra(RUNTIME)
    session = opened(runtime, installed, libraries)
    inputs = _inputs(numpy.random.default_rng(seed), session.get_inputs(), shapes, how)
    started = time.perf_counter()
    outputs = _outputs(session, inputs)
    took = time.perf_counter() - started
    names = [output.name for output in session.get_outputs()]
    _print(installed, inputs, dict(zip(names, outputs, strict=True)), took, as_json=as_json)


def _outputs(session: Any, inputs: dict[str, Any]) -> list[Any]:  # noqa: ANN401 - as above
    try:
        return list(session.run(None, inputs))
    except Exception as error:
        raise InvalidRequest(
            "The engine does not run on these inputs.",
            code="engine_run_failed",
            why=f"{first_line(error)}.",
            fix="Give shapes and values that the model can take: --shape, --synthetic.",
        ) from error


def _print(
    installed: Installed,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    took: float,
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json(
            {
                "digest": installed.artifact.digest,
                "inputs": {name: _described(value) for name, value in inputs.items()},
                "outputs": {name: _described(value) for name, value in outputs.items()},
                "seconds": took,
            }
        )
        return
    say(f"{installed.config.model_name} on made-up inputs, one run, {took * 1000:.1f} ms")
    for label, values in (("in", inputs), ("out", outputs)):
        for name, value in values.items():
            say(f"  {label:<3} {name} {value.dtype} {list(value.shape)}")


def _described(value: Any) -> JsonValue:  # noqa: ANN401 - a numpy array, not imported here
    return {"dtype": str(value.dtype), "shape": [int(dim) for dim in value.shape]}


def _inputs(
    generator: Any,  # noqa: ANN401 - a numpy generator, not imported here
    wanted: list[Any],
    shapes: dict[str, list[int]],
    synthetic: dict[str, SyntheticInput],
) -> dict[str, Any]:
    known = [each.name for each in wanted]
    for name in synthetic:
        if name not in known:
            raise unknown_input(name, known)
    made = {}
    for each in wanted:
        shape = shapes.get(each.name) or [dim if isinstance(dim, int) else 1 for dim in each.shape]
        made[each.name] = _values(generator, each, shape, synthetic.get(each.name))
    return made


def _values(
    generator: Any,  # noqa: ANN401 - a numpy generator, not imported here
    wanted: Any,  # noqa: ANN401 - what onnxruntime says of an input
    shape: list[int],
    how: SyntheticInput | None,
) -> Any:  # noqa: ANN401 - a numpy array
    dtype = _DTYPES.get(wanted.type)
    if dtype is None:
        raise InvalidRequest(
            f"The input {wanted.name!r} is a {wanted.type}.",
            code="input_not_made",
            why="Only numbers can be made up.",
            fix="Load the engine in your own program.",
        )
    low, high = _bounds(how, floating="float" in dtype)
    try:
        if "float" in dtype:
            return generator.uniform(low, high, shape).astype(dtype)
        return generator.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    except (ValueError, OverflowError, MemoryError) as error:
        raise InvalidRequest(
            f"No {dtype} values from {low:g} to {high:g} of the shape {shape} can be made up.",
            code="input_not_made",
            why=f"{first_line(error)}.",
            fix=f"Name other values, as --synthetic {wanted.name}=0:1, or a smaller --shape.",
        ) from error


def _bounds(how: SyntheticInput | None, *, floating: bool) -> tuple[float, float]:
    if how is not None and how.value is not None:
        return how.value, how.value
    if how is not None and how.low is not None and how.high is not None:
        return how.low, how.high
    return (-1.0, 1.0) if floating else (0, 1)


def _extra(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FarmError(
            f"This command needs {name}.",
            code="extra_missing",
            why="It is not installed here; the other commands do without it.",
            fix="Install it in the folder of the source with: pip install './client[run]'",
        ) from error
