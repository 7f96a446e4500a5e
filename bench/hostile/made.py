"""How the hostile models are made: short ways to say a graph, and what a case is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from enginefarm.spec import Profile, ShapeRange

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ORT, RTX86, RTX89 = "onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89"
RTX75 = "tensorrt-rtx@sm_75"
GEMM_NOT_75: dict[str, str | None] = {RTX75: "precision_not_on_architecture"}
TARGETS = (ORT, RTX86, RTX89)
node = helper.make_node
graph_of = helper.make_graph


def ranged(low: Sequence[int], usual: Sequence[int], high: Sequence[int]) -> ShapeRange:
    """Return a range of shapes."""
    return ShapeRange(min=list(low), opt=list(usual), max=list(high))


ROWS: Profile = {"x": ranged([1, 16], [4, 16], [8, 16])}


def info(name: str, shape: Sequence[int | str] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, dtype: type = np.float32) -> TensorProto:
    """Return a random weight."""
    values = np.random.default_rng(0).standard_normal(shape)
    return numpy_helper.from_array(values.astype(dtype), name)


def whole(name: str, *values: int, shape: Sequence[int] | None = None) -> TensorProto:
    """Return an int64 constant; a vector unless a shape is given."""
    return helper.make_tensor(name, INT64, [len(values)] if shape is None else shape, values)


def tensor(name: str, kind: int, shape: Sequence[int], values: Iterable[float]) -> TensorProto:
    """Return a constant of any type."""
    return helper.make_tensor(name, kind, shape, list(values))


def model(
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    weights: Iterable[TensorProto] = (),
    opset: int = 17,
    ir_version: int = 9,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a model, from x [n, 16] to y [n, 16] unless told otherwise."""
    made = graph_of(
        nodes,
        "g",
        [info("x", ["n", 16])] if inputs is None else inputs,
        [info("y", ["n", 16])] if outputs is None else outputs,
        list(weights),
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in domains)]
    return helper.make_model(made, opset_imports=opsets, ir_version=ir_version)


def everywhere(code: str | None) -> dict[str, str | None]:
    """Return what is expected if every target says the same."""
    return dict.fromkeys((*TARGETS, RTX75), code)


def only_rtx(code: str | None) -> dict[str, str | None]:
    """Return what is expected if ONNX Runtime takes the model and TensorRT-RTX does not."""
    return everywhere(code) | {ORT: None}


@dataclass(frozen=True)
class Case:
    """A model that hurts, and by target the code of the error it must get; None: it is built.

    ``make`` gives the model, or writes files into a folder and returns the path.
    """

    name: str
    kind: str
    make: Callable[[], onnx.ModelProto] | Callable[[Path], Path]
    expected: Mapping[str, str | None]
    profiles: Sequence[Profile] = field(default=(ROWS,))
    writes: bool = False

    def write(self, folder: Path) -> Path:
        """Write the model into a folder and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        made = self.make(folder) if self.writes else self.make()  # type: ignore[call-arg]  # by ``writes``
        if isinstance(made, Path):
            return made
        path = folder / "model.onnx"
        onnx.save(made, str(path))
        return path
