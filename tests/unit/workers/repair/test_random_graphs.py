"""No pass changes what a model computes, whatever the model: random graphs are the judge."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from enginefarm.repair_report import Outcome
from enginefarm.spec import FixedInput
from tests.unit.workers.repair.made import BOOL, branch, model, ran, shapes, through, value, weight
from workers.repair.registry import PASSES

ROWS, COLUMNS = 3, 4
EXACT = [name for name in PASSES if name != "restore-float"]
STEP = st.tuples(
    st.sampled_from(
        ["Relu", "Neg", "Add", "Mul", "Sub", "weight", "reshape", "if-known", "if-shape", "if-open"]
    ),
    st.integers(0, 30),
    st.integers(0, 30),
)


class Growing:
    """A graph that grows step by step; every tensor has the shape of the input."""

    def __init__(self) -> None:
        """Begin with two inputs, a constant condition and the numbers that shapes are made of."""
        self.nodes: list[onnx.NodeProto] = []
        self.tensors = ["x", "z"]
        self.weights = [
            weight("yes", np.array(True)),
            weight("one", np.int64(1)),
            weight("columns", np.int64(COLUMNS)),
            weight("flat", np.array([-1], np.int64)),
        ]

    def name(self) -> str:
        return f"t{len(self.nodes)}"

    def pick(self, number: int) -> str:
        return self.tensors[number % len(self.tensors)]

    def grow(self, kind: str, first: int, second: int) -> None:
        a, b, goal = self.pick(first), self.pick(second), f"r{len(self.tensors)}"
        if kind in {"Relu", "Neg"}:
            self.add(kind, [a], goal)
        elif kind in {"Add", "Mul", "Sub"}:
            self.add(kind, [a, b], goal)
        elif kind == "weight":
            name = f"w{len(self.weights)}"
            self.weights.append(weight(name, np.full(COLUMNS, first / 7, np.float32)))
            self.add("Add", [a, name], goal)
        elif kind == "reshape":
            self._there_and_back(a, goal)
        else:
            self._choose(kind, a, b, goal)
        self.tensors.append(goal)

    def add(self, kind: str, inputs: list[str], goal: str, **rest: Any) -> None:  # noqa: ANN401 - attributes
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [goal], name=name, **rest))

    def _there_and_back(self, a: str, goal: str) -> None:
        self.add("Shape", [a], f"{goal}_shape")
        self.add("Reshape", [a, "flat"], f"{goal}_flat")
        self.add("Reshape", [f"{goal}_flat", f"{goal}_shape"], goal)

    def _choose(self, kind: str, a: str, b: str, goal: str) -> None:
        condition = {"if-known": "yes", "if-open": "open"}.get(kind, f"{goal}_single")
        if kind == "if-shape":
            self.add("Shape", [a], f"{goal}_shape")
            self.add("Gather", [f"{goal}_shape", "one"], f"{goal}_size")
            self.add("Equal", [f"{goal}_size", "columns"], condition)
        # Both branches use one name, as the standard allows.
        then = branch([helper.make_node("Mul", [a, b], ["inner"])], "inner")
        rest = branch([helper.make_node("Neg", [a], ["inner"])], "inner")
        self.add("If", [condition], goal, then_branch=then, else_branch=rest)

    def model(self, *, fixed_rows: bool) -> onnx.ModelProto:
        rows: int | str = ROWS if fixed_rows else "n"
        inputs = [value("x", rows, COLUMNS), value("z", rows, COLUMNS), value("open", dtype=BOOL)]
        outputs = [value(self.tensors[-1], rows, COLUMNS)]
        if self.tensors[-1] in {"x", "z"}:
            self.add("Identity", [self.tensors[-1]], "y")
            outputs = [value("y", rows, COLUMNS)]
        return model(self.nodes, inputs, outputs, self.weights)


@pytest.mark.filterwarnings("ignore:overflow")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(STEP, min_size=1, max_size=12),
    fixed_rows=st.booleans(),
    close=st.sampled_from([None, True, False]),
    seed=st.integers(0, 1000),
    unsorted=st.booleans(),
)
def test_no_pass_changes_what_a_random_model_computes(
    steps: list[tuple[str, int, int]],
    fixed_rows: bool,  # noqa: FBT001 - drawn
    close: bool | None,  # noqa: FBT001 - drawn
    seed: int,
    unsorted: bool,  # noqa: FBT001 - drawn
) -> None:
    graph = Growing()
    for step in steps:
        graph.grow(*step)
    made = graph.model(fixed_rows=fixed_rows)
    rng = np.random.default_rng(seed)
    x, z = (rng.uniform(-1, 1, (ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    feeds = {"x": x, "z": z, "open": np.array(bool(close))}
    wanted = ran(made, feeds)
    if unsorted:
        shuffled = [made.graph.node[i] for i in rng.permutation(len(made.graph.node))]
        rows = [onnx.NodeProto.FromString(row.SerializeToString()) for row in shuffled]
        del made.graph.node[:]
        made.graph.node.extend(rows)
    both = shapes([1, COLUMNS], [ROWS, COLUMNS], [ROWS + 2, COLUMNS])
    profile = None if fixed_rows else {"x": both, "z": both}
    fixed = {} if close is None else {"open": FixedInput(value=close)}

    with tempfile.TemporaryDirectory() as folder:
        found, reports = through(made, Path(folder), *EXACT, profile=profile, fixed=fixed)

    onnx.checker.check_model(found, full_check=True)
    assert not [row for row in reports if row.outcome in {Outcome.UNDONE, Outcome.NOT_APPLIED}]
    for before, after in zip(wanted, ran(found, feeds), strict=True):
        assert np.allclose(before, after, rtol=1e-5, atol=1e-6, equal_nan=True)
    if close is not None:
        assert not [n for n in found.graph.node if n.op_type == "If" and n.input[0] == "open"]
