"""Small models for the rules, and the rules held against them without a runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from enginefarm.finding import Finding
from enginefarm.preflight.check import check, facts_or_finding
from enginefarm.preflight.facts import ModelFacts
from enginefarm.preflight.subject import Room, Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.spec import CompileOptions, Profile, ShapeRange
from enginefarm.target import Target

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RTX, ORT = "tensorrt-rtx@sm_89", "onnxruntime@cpu"
PROFILE: Profile = {"x": ShapeRange(min=[1, 16], opt=[4, 16], max=[8, 16])}


def info(name: str, shape: Sequence[int | str] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor."""
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int, dtype: type = np.float32) -> TensorProto:
    """Return a random weight."""
    values = np.random.default_rng(0).standard_normal(shape)
    return numpy_helper.from_array(values.astype(dtype), name)


def whole(name: str, *values: int, shape: Sequence[int] | None = None) -> TensorProto:
    """Return an int64 constant."""
    return helper.make_tensor(name, INT64, [len(values)] if shape is None else shape, values)


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
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", ["n", 16])] if inputs is None else inputs,
        [info("y", ["n", 16])] if outputs is None else outputs,
        list(weights),
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def facts_of(folder: Path, made: onnx.ModelProto) -> ModelFacts:
    """Return what the reader says of a model."""
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    found = facts_or_finding(path)
    assert isinstance(found, ModelFacts), found
    return found


def found_in(
    folder: Path,
    made: onnx.ModelProto,
    target: str = RTX,
    *,
    profiles: Sequence[Profile] = (PROFILE,),
    version: str | None = None,
    room: Room | None = None,
    workspace_mib: int | None = None,
) -> list[Finding]:
    """Return all that the rules find."""
    facts = facts_of(folder, made)
    return check(
        Subject(
            facts,
            Target.parse(target),
            profiles,
            options=CompileOptions(workspace_mib=workspace_mib),
            version=version,
            seen=look_at_weights(folder / "model.onnx", facts),
            room=room or Room(),
        )
    )


def codes(findings: Iterable[Finding]) -> list[str]:
    """Return the codes, in order."""
    return [each.code for each in findings]
