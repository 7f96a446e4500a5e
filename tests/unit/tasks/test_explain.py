"""Two recipes are compared field by field, each difference named by its path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.explain import differences

RECIPE: dict[str, Any] = {
    "schema": 1,
    "stage": "compile",
    "backend_version": "1.7",
    "model": {"files": [{"name": "model.onnx", "size": 7}]},
    "options": {"optimization_level": 3},
}


def told(this: Any, that: Any) -> list[tuple[str, Any, Any]]:  # noqa: ANN401 - JSON
    return [(row.field, row.this, row.nearest) for row in differences(this, that)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"backend_version": "1.8"}, [("backend_version", "1.7", "1.8")]),
        (
            {"options": {"optimization_level": 5}},
            [("options.optimization_level", 3, 5)],
        ),
        ({"options": {}}, [("options.optimization_level", 3, "(absent)")]),
        (
            {"model": {"files": [{"name": "model.onnx", "size": 8}]}},
            [("model.files[0].size", 7, 8)],
        ),
        (
            {"model": {"files": []}},
            [("model.files", [{"name": "model.onnx", "size": 7}], [])],
        ),
        ({"schema": 2, "stage": "check"}, []),
    ],
)
def test_each_field_that_differs_is_named_by_its_path(
    change: dict[str, Any], expected: list[tuple[str, Any, Any]]
) -> None:
    assert told(RECIPE, RECIPE | change) == expected


def test_a_field_that_only_the_other_has_is_absent_here() -> None:
    assert told({}, {"seed": 1}) == [("seed", "(absent)", 1)]


@given(st.dictionaries(st.text(), st.integers() | st.lists(st.text(max_size=3), max_size=3)))
def test_equal_recipes_do_not_differ(recipe: dict[str, Any]) -> None:
    assert differences(recipe, dict(reversed(recipe.items()))) == []
