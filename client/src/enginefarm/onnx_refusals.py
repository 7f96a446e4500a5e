"""How a model file is refused: each refusal says what, why and what to do."""

from __future__ import annotations

from enginefarm.errors import InvalidModel
from enginefarm.protobuf_wire import CutError, WireError


def invalid_graph(message: str, why: str, **context: str) -> InvalidModel:
    """Return the refusal of a graph that no runtime could read."""
    return InvalidModel(
        message,
        code="invalid_graph",
        why=f"{why[:1].upper()}{why[1:]}." if why else "",
        fix="Export the model again; onnx.checker.check_model names the place.",
        **context,
    )


def too_complex(why: str, **context: str) -> InvalidModel:
    """Return the refusal of a model with more parts than the farm looks at."""
    return InvalidModel(
        "The model has more parts than the farm looks at.",
        code="model_too_complex",
        why=f"{why[:1].upper()}{why[1:]}.",
        fix="Keep weights in raw initializers or external data, simplify the graph, and export it "
        "again.",
        **context,
    )


def bad_external(name: str, why: str) -> InvalidModel:
    """Return the refusal of external data that is described badly."""
    return InvalidModel(
        f"The external data of tensor {name[:80]!r} is not described as it must be.",
        code="external_data_invalid",
        why=f"{why[:1].upper()}{why[1:]}.",
        fix="Save the model again with onnx.save_model(…, save_as_external_data=True).",
        tensor=name[:200],
    )


def too_many_nodes(limit: int) -> InvalidModel:
    """Return the refusal of a model with more nodes than the farm looks at."""
    return InvalidModel(
        f"The model has more than {limit} nodes.",
        code="too_many_nodes",
        why="No compiler finishes such a graph; loops were probably unrolled.",
        fix="Simplify it (fold constants, keep loops as Loop or Scan) and export it again.",
    )


def too_deep(limit: int) -> InvalidModel:
    """Return the refusal of graphs inside graphs inside graphs."""
    return InvalidModel(
        f"Graphs are nested more than {limit} deep in the model.",
        code="graph_too_deep",
        why="Protobuf readers stop there, too.",
        fix="Flatten the branches and loops and export the model again.",
    )


def named_twice(name: str, what: str) -> InvalidModel:
    """Return the refusal of a name that stands for two tensors."""
    return invalid_graph(
        f"The name {name[:200]!r} is given to two tensors of one graph.",
        f"{what}; each tensor needs a name of its own",
        tensor=name[:200],
    )


def not_a_model(why: str, fix: str = "") -> InvalidModel:
    """Return the refusal of a file that is something else."""
    return InvalidModel(
        "The file is not an ONNX model.",
        code="not_a_model",
        why=f"{why[:1].upper()}{why[1:]}.",
        fix=fix or "Export the model to ONNX with torch.onnx.export or your framework's converter.",
    )


def truncated(error: CutError, size: int) -> InvalidModel:
    """Return the refusal of a model whose end is missing."""
    return InvalidModel(
        "The model file ends too early.",
        code="model_truncated",
        why=f"It has {size} bytes; at least {error.missing} more belong to it.",
        fix="Compare its size and sha256 with the original, and fetch or upload it again.",
        size=size,
        missing=error.missing,
    )


def unreadable(error: WireError) -> InvalidModel:
    """Return the refusal of bytes that cannot be read as protobuf."""
    return not_a_model(f"read as protobuf, byte {error.at} makes no sense: {error}")
