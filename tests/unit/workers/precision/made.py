"""Small models whose numbers are awkward for half precision or int8, and data for them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from enginefarm.precision import Precision
from enginefarm.precision_report import PrecisionRecipe
from enginefarm.state import Stage
from enginefarm.target import Target
from tests.unit.workers.repair.made import model, value
from workers.backends.base import Array
from workers.childjob import ChildInput, ChildJob, ChildResult
from workers.precision import stage

CALIBRATION, EVALUATION = "sha256:" + "1" * 64, "sha256:" + "2" * 64
IMAGE = [3, 32, 32]
PROFILE = {"x": {"min": [1, *IMAGE], "opt": [4, *IMAGE], "max": [16, *IMAGE]}}


def weight(name: str, values: Any) -> TensorProto:  # noqa: ANN401 - whatever numpy takes
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


def small_network() -> onnx.ModelProto:
    """Two convolutions that look for edges, and a classifier behind them."""
    rng = np.random.default_rng(40)
    rows, columns = np.mgrid[-2:3, -2:3]
    edges = np.zeros((8, 3, 5, 5))
    for each in range(8):
        wave = np.sin(columns * np.cos(each * 0.4) + rows * np.sin(each * 0.4))
        edges[each] = wave * np.exp(-(columns**2 + rows**2) / 4) * rng.uniform(0.5, 1.5, (3, 1, 1))
    weights = [
        weight("w1", edges),
        weight("w2", rng.standard_normal((16, 8, 3, 3)) * 0.2),
        weight("w3", rng.standard_normal((16, 10)) * 0.5),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MaxPool", ["b"], ["c"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["d"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["d"], ["e"], name="again"),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], name="mean"),
        helper.make_node("Flatten", ["f"], ["g"], name="flat"),
        helper.make_node("MatMul", ["g", "w3"], ["y"], name="head"),
    ]
    return model(nodes, [value("x", "n", *IMAGE)], [value("y", "n", 10)], weights)


def images(first: int, count: int) -> Array:
    """Return smooth pictures of bars within 0..1."""
    rows, columns = np.mgrid[0:32, 0:32] / 32.0
    made = []
    for each in range(first, first + count):
        rng = np.random.default_rng(900 + each)
        angle = rng.uniform(0, np.pi)
        across = columns * np.cos(angle) + rows * np.sin(angle)
        bars = 0.5 + 0.4 * np.sin(rng.uniform(3, 25) * across + rng.uniform(0, 6))
        middle = rng.uniform(0.2, 0.8, 2)
        spot = np.exp(-((columns - middle[0]) ** 2 + (rows - middle[1]) ** 2) * rng.uniform(0, 4))
        made.append(np.stack([bars * spot * rng.uniform(0.6, 1) for _ in range(3)]))
    pictures: Array = np.clip(np.stack(made), 0, 1).astype(np.float32)
    return pictures


def one_by_one(array: Array) -> Iterator[dict[str, Array]]:
    for each in array:
        yield {"x": each[None]}


def recipe(kind: str, **asked: Any) -> PrecisionRecipe:  # noqa: ANN401 - any option
    told = Precision.model_validate({"kind": kind} | asked).recipe
    return PrecisionRecipe.model_validate(told | {"tool_version": "0"})


class Silent:
    """Hears progress and says nothing."""

    stopping = False

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        pass


def run(
    folder: Path,
    made: onnx.ModelProto,
    kind: str,
    *,
    calibration: dict[str, Array] | None = None,
    evaluation: dict[str, Array] | None = None,
    profiles: list[Any] | None = None,
    tool_version: str | None = None,
    **asked: Any,  # noqa: ANN401 - any option
) -> ChildResult:
    """Run the stage that makes a precision, in this process."""
    (folder / "out").mkdir(parents=True, exist_ok=True)
    onnx.save(made, str(folder / "in.onnx"))
    inputs = [ChildInput(role="model", name="model.onnx", path=folder / "in.onnx")]
    for role, arrays in (("calibration", calibration), ("dataset", evaluation)):
        if arrays is not None:
            path = folder / f"{role}.npz"
            with path.open("wb") as stream:
                np.savez(stream, allow_pickle=False, **arrays)
            inputs.append(ChildInput(role=role, name=path.name, path=path))
    if calibration is not None:
        asked["calibration"] = CALIBRATION
    wanted = Precision.model_validate({"kind": kind} | asked)
    job = ChildJob(
        stage=wanted.stage or Stage.CAST,
        target=Target.parse("onnxruntime@cpu"),
        recipe={
            "precision": wanted.recipe,
            "tool_version": tool_version or version("onnxruntime"),
            "profiles": [PROFILE] if profiles is None else profiles,
            "evaluation": EVALUATION if evaluation is not None else None,
            "synthetic": {},
            "seed": 0,
        },
        inputs=inputs,
        out=folder / "out",
    )
    return stage.change_precision(job, Silent())
