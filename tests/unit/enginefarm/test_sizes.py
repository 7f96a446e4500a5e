"""Arrays of several sizes are told from arrays that only look like them."""

from __future__ import annotations

import pytest

from enginefarm.sizes import by_size, is_numbered


def test_arrays_that_are_numbered_are_of_one_size_each_in_the_order_of_their_numbers() -> None:
    names = ["ids/1", "mask/0", "ids/0", "mask/1"]
    assert by_size(names) == [
        {"mask": "mask/0", "ids": "ids/0"},
        {"ids": "ids/1", "mask": "mask/1"},
    ]
    many = [f"x/{number}" for number in range(12)]
    assert [row["x"] for row in by_size(many)] == many


@pytest.mark.parametrize(
    "names",
    [["x"], ["x/0", "y"], ["x/1"], ["x/0", "x/2"], ["x/0", "y/0", "x/1"], ["x/00"], ["x/a"], []],
    ids=["plain", "half", "from one", "gap", "one lacks", "zeros", "letters", "none"],
)
def test_what_is_not_numbered_throughout_is_called_what_it_is_called(names: list[str]) -> None:
    assert by_size(names) == [{name: name for name in names}]


def test_a_name_that_is_an_inputs_own_is_that_input() -> None:
    assert by_size(["x/0", "x/1"], ["x/0", "x/1"]) == [{"x/0": "x/0", "x/1": "x/1"}]
    assert by_size(["gpu_0/data/0"], ["gpu_0/data"]) == [{"gpu_0/data": "gpu_0/data/0"}]
    assert is_numbered("x/0")
    assert not is_numbered("gpu_0/data_0")
