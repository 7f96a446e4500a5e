"""Small models, each with what a pass mends, and a way to run passes on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from enginefarm.fixed import with_fixed
from enginefarm.model_file import scan_model
from enginefarm.repair_report import PassReport
from enginefarm.repairs import REPAIRS
from enginefarm.spec import FixedInput, Profile, ShapeRange, SyntheticInput
from workers.repair.base import Ground
from workers.repair.runner import Repaired, repair

Array = np.ndarray[Any, np.dtype[Any]]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Quiet:
    """A sink that hears nothing and never stops."""

    stopping = False

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Say nothing."""


def value(name: str, *shape: int | str | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name: str, array: Any) -> onnx.TensorProto:  # noqa: ANN401 - what numpy takes
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    ir: int = 8,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def branch(nodes: Sequence[onnx.NodeProto], *outputs: str, dtype: int = FLOAT) -> onnx.GraphProto:
    told = [helper.make_tensor_value_info(name, dtype, None) for name in outputs]
    return helper.make_graph(list(nodes), "branch", [], told)


def shapes(low: list[int], usual: list[int], high: list[int]) -> ShapeRange:
    return ShapeRange(min=low, opt=usual, max=high)


def through(
    made: onnx.ModelProto,
    folder: Path,
    *names: str,
    profile: Profile | None = None,
    fixed: dict[str, FixedInput] | None = None,
    synthetic: dict[str, SyntheticInput] | None = None,
    **ground_of: Any,  # noqa: ANN401 - what else Ground has
) -> tuple[onnx.ModelProto, list[PassReport]]:
    """Bring a model through the named passes, or all; return it and what became of each."""
    path = folder / "original.onnx"
    onnx.save(made, str(path))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    declared = scan_model(path).inputs
    ground = Ground(
        folder=folder,
        declared=declared,
        inputs=with_fixed(declared, fixed or {}),
        profiles=[profile] if profile else [],
        fixed=fixed or {},
        synthetic=synthetic or {},
        prune_inputs=True,
        **{"backend": "tensorrt-rtx", **ground_of},
    )
    rows = [row for row in REPAIRS if not names or row.name in names]
    loaded = onnx.load(str(path))
    state = repair(Repaired(loaded, path), rows, ground, work, Quiet())
    return state.model, state.reports


def one(reports: list[PassReport], name: str) -> PassReport:
    return next(row for row in reports if row.name == name)


def ran(made: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """Run a model in ONNX Runtime as a deployer would, with what it knows of rewriting."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = {row.name for row in session.get_inputs()}
    found = session.run(None, {name: row for name, row in feeds.items() if name in names})
    return [np.asarray(row) for row in found]


def ops(made: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]
