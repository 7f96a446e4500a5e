"""What fixing an input does to a model's interface, and what cannot be fixed."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from enginefarm.errors import InvalidRequest
from enginefarm.fixed import shape_of, with_fixed
from enginefarm.spec import FixedInput, RepairOptions
from enginefarm.views import TensorView

X = TensorView(name="x", dtype="float32", shape=["batch", 3, None])
RATE = TensorView(name="sr", dtype="int64", shape=[])
IDS = TensorView(name="ids", dtype="int64", shape=[1, 8])
TRAIN = TensorView(name="train", dtype="bool", shape=[])


def fixed(name: str, **what: object) -> dict[str, FixedInput]:
    return {name: FixedInput.model_validate(what)}


def test_an_input_with_a_value_is_gone_and_one_with_a_shape_has_it() -> None:
    left = with_fixed([X, RATE], fixed("sr", value=16000) | fixed("x", shape=[2, 3, 5]))
    assert [(row.name, row.shape) for row in left] == [("x", [2, 3, 5])]


def test_nothing_fixed_leaves_everything_as_it_is() -> None:
    assert with_fixed([X, RATE, IDS], {}) == [X, RATE, IDS]


def test_a_value_fills_the_models_own_shape_or_the_one_that_is_given() -> None:
    assert shape_of(IDS, FixedInput(value=1)) == [1, 8]
    assert shape_of(X, FixedInput(value=1, shape=[1, 3, 2])) == [1, 3, 2]


@pytest.mark.parametrize(
    ("row", "what", "code"),
    [
        (X, {"value": 1.0}, "fix_shape"),
        (X, {"shape": [1, 3]}, "fix_shape"),
        (X, {"shape": [1, 4, 2]}, "fix_shape"),
        (RATE, {"value": 0.5}, "fix_value"),
        (TRAIN, {"value": 2}, "fix_value"),
        (TensorView(name="u", dtype="uint8", shape=[]), {"value": -1}, "fix_value"),
        (TensorView(name="t", dtype="string", shape=[]), {"value": 1}, "fix_value"),
    ],
)
def test_what_does_not_fit_the_input_is_refused(
    row: TensorView, what: dict[str, object], code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        with_fixed([row], fixed(row.name, **what))
    assert refused.value.code == code
    assert refused.value.fix


@pytest.mark.parametrize(
    ("row", "value"), [(RATE, 16000), (RATE, 16000.0), (TRAIN, False), (TRAIN, 1), (X, 1)]
)
def test_what_fits_is_taken(row: TensorView, value: float) -> None:
    shape = {"shape": [1, 3, 1]} if row is X else {}
    assert with_fixed([row], fixed(row.name, value=value, **shape)) == []


def test_a_value_is_not_written_out_for_millions_of_elements() -> None:
    plane = TensorView(name="v", dtype="float32", shape=["a", "b"])
    told = TensorView(name="v", dtype="float32", shape=[40000, 40000])
    for row, shape in ((plane, [40000, 40000]), (plane, [4096, 4097]), (told, None)):
        with pytest.raises(InvalidRequest) as refused:
            with_fixed([row], {"v": FixedInput(value=1, shape=shape)})
        assert refused.value.code == "fix_shape"
    assert with_fixed([plane], {"v": FixedInput(value=1, shape=[4096, 4096])}) == []
    assert with_fixed([plane], {"v": FixedInput(shape=[40000, 40000])})


def scalar(dtype: str) -> TensorView:
    return TensorView(name="v", dtype=dtype, shape=[])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", 300),
        ("int8", -129),
        ("uint8", 256),
        ("int32", 3e9),
        ("int64", 10**30),
        ("int64", 1e300),
        ("int64", 2**63),
        ("int4", 8),
        ("float16", 1e6),
        ("float32", 1e39),
        pytest.param("float32", 10**400, id="float32-huge"),
        pytest.param("double", 10**400, id="double-huge"),
        ("bfloat16", 3.4e38),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused(dtype: str, value: float) -> None:
    with pytest.raises(InvalidRequest) as refused:
        with_fixed([scalar(dtype)], {"v": FixedInput(value=value)})
    assert refused.value.code == "fix_value"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -128),
        ("uint8", 255),
        ("int64", 2**53 + 1),
        ("uint64", 2**64 - 1),
        ("float16", 65504),
        ("float32", 3.4e38),
        ("float32", 0.1),
        ("double", 1e300),
        ("bfloat16", 3e38),
    ],
)
def test_the_ends_of_a_type_are_taken(dtype: str, value: float) -> None:
    assert with_fixed([scalar(dtype)], {"v": FixedInput(value=value)}) == []


def test_a_misspelt_input_is_told_the_nearest() -> None:
    with pytest.raises(InvalidRequest) as refused:
        with_fixed([X, RATE], fixed("Sr", value=1))
    assert refused.value.code == "unknown_input"
    assert "'sr'" in refused.value.fix


def test_a_fix_of_nothing_and_a_repair_without_the_stage_are_refused() -> None:
    with pytest.raises(ValidationError, match="a value or a shape"):
        FixedInput()
    with pytest.raises(ValidationError, match="a repair is asked for"):
        RepairOptions.model_validate({"mode": "none", "prune_unused": True})
    assert not RepairOptions().asks
