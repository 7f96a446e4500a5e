"""Small models made on the spot: right ones, and wrong ones of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def save(folder: Path, model: onnx.ModelProto, **kwargs: Any) -> Path:  # noqa: ANN401 - onnx's own
    """Write a model in a folder of its own."""
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    onnx.save(model, str(path), **kwargs)
    return path


def weight(name: str, *shape: int, seed: int = 0) -> TensorProto:
    """Return a random weight."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def info(name: str, shape: list[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    *,
    weights: list[TensorProto] | None = None,
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    opset: int = 17,
    ir: int = 8,
) -> onnx.ModelProto:
    """Return a model from x [n, 16] to y [n, 16] unless told otherwise."""
    graph = helper.make_graph(
        nodes,
        "g",
        inputs or [info("x", ["n", 16])],
        outputs or [info("y", ["n", 16])],
        weights or [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def dense(layers: int = 1, seed: int = 0) -> onnx.ModelProto:
    """Return layers of MatMul and Relu, then a Softmax."""
    nodes, weights, last = [], [], "x"
    for number in range(layers):
        weights.append(weight(f"w{number}", 16, 16, seed=seed + number))
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"m{number}"]))
        nodes.append(helper.make_node("Relu", [f"m{number}"], [f"r{number}"]))
        last = f"r{number}"
    nodes.append(helper.make_node("Softmax", [last], ["y"], axis=-1))
    return model_of(nodes, weights=weights)


def hungry(size: int) -> onnx.ModelProto:
    """Return a model that needs so many bytes beside its weights whenever it is run."""
    length = numpy_helper.from_array(np.array([size // 4], np.int64), "length")
    nodes = [
        helper.make_node("ConstantOfShape", ["length"], ["c"]),
        helper.make_node("ReduceMax", ["c"], ["most"], keepdims=0),
        helper.make_node("Add", ["x", "most"], ["y"]),
    ]
    return model_of(nodes, weights=[length])


def dense_answers(x: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return what one layer of :func:`dense` says, but for the Softmax, which keeps the order."""
    return np.asarray(np.maximum(x @ numpy_helper.to_array(weight("w0", 16, 16)), 0))


def garbage(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "model.onnx"
    path.write_bytes(b"\x08\x07not a model at all" * 10)
    return path


def truncated(folder: Path) -> Path:
    path = save(folder, dense())
    path.write_bytes(path.read_bytes()[:-200])
    return path


def empty(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "model.onnx"
    path.write_bytes(b"")
    return path


def unknown_operator(folder: Path) -> Path:
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="strange.domain")
    model = model_of([node])
    model.opset_import.append(helper.make_opsetid("strange.domain", 1))
    return save(folder, model)


def duplicate_name(folder: Path) -> Path:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]
    return save(folder, model_of(nodes))


def opset_from_the_future(folder: Path) -> Path:
    return save(folder, model_of([helper.make_node("Relu", ["x"], ["y"])], opset=99))


def gather(folder: Path) -> Path:
    """Return a model that looks whole numbers up in a table of 5."""
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    return save(
        folder,
        model_of(
            [node],
            weights=[weight("table", 5, 3)],
            inputs=[info("x", ["n", 4], INT64)],
            outputs=[info("y", ["n", 4, 3])],
        ),
    )


def no_nodes(folder: Path) -> Path:
    """Return a graph that hands its input on without a node."""
    return save(folder, model_of([], outputs=[info("x", ["n", 16])]))


def data_outside(folder: Path) -> Path:
    """Return a model whose weight lies outside its own folder."""
    path = save(
        folder, dense(), save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (folder / "weights.bin").rename(folder.parent / "weights.bin")
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    path.write_bytes(model.SerializeToString())
    return path


def baked_batch(folder: Path) -> Path:
    """Return a model that says its batch is free and has fixed it to 2 inside."""
    shape = numpy_helper.from_array(np.array([2, 16], np.int64), "shape")
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    return save(folder, model_of(nodes, weights=[shape]))
