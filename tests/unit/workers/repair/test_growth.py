"""A few bytes of a file may ask for gigabytes; folding does not make them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.unit.workers.repair.made import (
    Array,
    model,
    value,
    weight,
)
from workers.repair.folding import Constants


@pytest.mark.parametrize(
    ("op", "shapes", "count"),
    [
        ("Expand", [(1 << 20, 1)], [1, 1 << 12]),
        ("Tile", [(1 << 20,)], [1 << 12]),
        ("Add", [(1 << 20, 1), (1, 1 << 12)], None),
        ("Where", [(1, 1), (1 << 20, 1), (1, 1 << 12)], None),
        ("Gather", [(1, 1 << 12), (1 << 20,)], None),
        ("GatherND", [(1, 1 << 12), (1 << 20, 1)], None),
        ("Range", [(), (), ()], None),
    ],
)
def test_what_would_grow_is_not_even_computed(
    op: str, shapes: list[tuple[int, ...]], count: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.repair.folding.ReferenceEvaluator", _never)
    first = np.bool_ if op == "Where" else np.float32
    rest = np.int64 if op.startswith("Gather") else np.float32
    arrays: list[Array] = [
        np.zeros(shape, rest if at else first) for at, shape in enumerate(shapes)
    ]
    if op == "Range":
        arrays = [np.array(number, np.float32) for number in (0, np.inf, 1)]
    arrays += [np.array(count, np.int64)] if count else []
    weights = [weight(f"w{at}", array) for at, array in enumerate(arrays)]
    node = helper.make_node(op, [row.name for row in weights], ["y"])
    made = model([node], [], [value("y", None, None)], weights)
    assert Constants(made).learn(made.graph.node[0]) is None


def _never(*_: object) -> None:
    pytest.fail("it was computed")


def test_what_is_folded_has_a_bound_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.repair.folding.MOST_IN_ALL", 5)
    nodes = [helper.make_node("Neg", ["w"], [f"y{at}"]) for at in range(3)]
    outputs = [value(f"y{at}", 2) for at in range(3)]
    made = model(nodes, [], outputs, [weight("w", np.ones(2, np.float32))])
    constants = Constants(made)
    found = [constants.learn(node) is not None for node in made.graph.node]
    assert found == [True, True, False]
