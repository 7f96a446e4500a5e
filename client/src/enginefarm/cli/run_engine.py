"""``enginefarm run``: try an engine that was pulled, after verifying it, on made-up inputs.

An engine is code, so nothing is loaded that has not been verified in the same breath. numpy and
onnxruntime belong to the optional extra ``enginefarm[run]`` and are imported by name, late: every
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
from enginefarm.cli.session import settings_of
from enginefarm.errors import FarmError, InvalidRequest, NotServed
from enginefarm.install import Installed, verify_folder
from enginefarm.manifest import EngineConfig
from enginefarm.trust import read_trust

_RUNS = "onnxruntime@cpu"
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    **{f"tensor({kind})": kind for kind in ("int8", "int16", "int32", "int64")},
    **{f"tensor(u{kind})": f"u{kind}" for kind in ("int8", "int16", "int32", "int64")},
}


def run(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="A folder that pull has made.")],
    *,
    trust: Trust = None,
    shape: Annotated[list[str] | None, typer.Option(help="input=1x3x320x480. Repeatable.")] = None,
    synthetic: Annotated[
        list[str] | None, typer.Option(help="ids=0:30521 or sr=16000. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up inputs.")] = 0,
    as_json: Json = False,
) -> None:
    """Run an onnxruntime engine once on made-up inputs and show what comes out."""
    keys = read_trust(settings_of(ctx).require_trust(trust)).keys
    installed = verify_folder(folder, keys)
    if installed.config.target != _RUNS:
        raise _not_here(installed.config.target)
    numpy, runtime = _extra("numpy"), _extra("onnxruntime")
    session = runtime.InferenceSession(str(installed.engine), providers=["CPUExecutionProvider"])
    inputs = _inputs(
        numpy.random.default_rng(seed),
        session.get_inputs(),
        _usual_shapes(installed.config) | _shapes(shape or []),
        arguments.synthetic(synthetic or []),
    )
    started = time.perf_counter()
    outputs = session.run(None, inputs)
    took = time.perf_counter() - started
    names = [output.name for output in session.get_outputs()]
    _print(installed, inputs, dict(zip(names, outputs, strict=True)), took, as_json=as_json)


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
    synthetic: dict[str, JsonValue],
) -> dict[str, Any]:
    known = [each.name for each in wanted]
    for name in [*shapes, *synthetic]:
        if name not in known:
            raise InvalidRequest(
                f"The engine has no input {name[:80]!r}.",
                code="unknown_input",
                why=f"Its inputs are {', '.join(known)}.",
                fix="Name one of these.",
            )
    made = {}
    for each in wanted:
        shape = shapes.get(each.name) or [dim if isinstance(dim, int) else 1 for dim in each.shape]
        made[each.name] = _values(generator, each, shape, synthetic.get(each.name))
    return made


def _values(
    generator: Any,  # noqa: ANN401 - a numpy generator, not imported here
    wanted: Any,  # noqa: ANN401 - what onnxruntime says of an input
    shape: list[int],
    how: JsonValue,
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
    if "float" in dtype:
        return generator.uniform(low, high, shape).astype(dtype)
    return generator.integers(int(low), int(high), shape, endpoint=True).astype(dtype)


def _bounds(how: JsonValue, *, floating: bool) -> tuple[float, float]:
    if isinstance(how, dict):
        low, high = how.get("low", how.get("value")), how.get("high", how.get("value"))
        if isinstance(low, int | float) and isinstance(high, int | float):
            return low, high
    return (-1.0, 1.0) if floating else (0, 1)


def _usual_shapes(config: EngineConfig) -> dict[str, list[int]]:
    """Return the shapes that the engine was made for, if it has a profile."""
    shapes = {}
    for name, bounds in (config.profiles[0] if config.profiles else {}).items():
        usual = bounds.get("opt") if isinstance(bounds, dict) else None
        if isinstance(usual, list):
            shapes[name] = [int(dim) for dim in usual if isinstance(dim, int)]
    return shapes


def _shapes(texts: list[str]) -> dict[str, list[int]]:
    return {
        name: list(bounds.opt)
        for profile in arguments.profiles(texts)
        for name, bounds in profile.items()
    }


def _extra(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FarmError(
            f"This command needs {name}.",
            code="extra_missing",
            why="It is not installed here; the other commands do without it.",
            fix="Install it with: pip install 'enginefarm[run]'",
        ) from error


def _not_here(target: str) -> FarmError:
    return NotServed(
        f"An engine for {target} cannot be run by this command.",
        code="target_not_run_here",
        why=f"Only {_RUNS} engines run on any machine.",
        fix="Load it with its own runtime on a machine of that architecture.",
    )
