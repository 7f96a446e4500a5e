"""A proposed profile always fits, and is like what such inputs usually carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginefarm.profile import check_profiles, dynamic_inputs
from enginefarm.proposal import propose
from enginefarm.views import TensorView

BATCH, SEQUENCE, SIDE, PAST = (1, 1, 8), (16, 128, 512), (160, 320, 640), (1, 128, 512)
DIMS = st.none() | st.integers(1, 2**31 - 1) | st.sampled_from(["batch", "seq_len", "N", "?", "h"])
INPUTS = st.lists(
    st.builds(
        TensorView,
        name=st.text(min_size=1, max_size=8),
        dtype=st.sampled_from(["float32", "int64", "bool"]),
        shape=st.lists(DIMS, max_size=5),
    ),
    max_size=4,
    unique_by=lambda row: row.name,
)


@given(INPUTS)
def test_whatever_the_inputs_are_the_proposal_fits_them(inputs: list[TensorView]) -> None:
    proposed = propose(inputs)

    assert list(proposed) == [row.name for row in dynamic_inputs(inputs)]
    check_profiles(inputs, [proposed] if proposed else [])


def axis(row: TensorView, at: int) -> tuple[int, int, int]:
    """Return what is proposed for one dimension of an input."""
    shapes = propose([row])[row.name]
    return shapes.min[at], shapes.opt[at], shapes.max[at]


@pytest.mark.parametrize(
    ("shape", "dtype", "at", "expected"),
    [
        ([None, 3, None, None], "float32", 0, BATCH),
        ([None, 3, None, None], "float32", 1, (3, 3, 3)),
        ([None, 3, None, None], "float32", 2, SIDE),
        ([None, 3, None, None], "float32", 3, SIDE),
        ([1, 64, None], "float32", 2, (16, 64, 256)),
        ([1, None], "int64", 1, SEQUENCE),
        ([1, "sequence_length"], "float32", 1, SEQUENCE),
        ([1, "past_sequence_length"], "int64", 1, PAST),
        (["time", 80], "float32", 0, SEQUENCE),
        ([1, "Height", "Width"], "float32", 1, SIDE),
        (["unk__42", 10], "float32", 0, BATCH),
    ],
)
def test_names_places_and_types_tell_what_a_dimension_counts(
    shape: list[int | str | None], dtype: str, at: int, expected: tuple[int, int, int]
) -> None:
    assert axis(TensorView(name="x", dtype=dtype, shape=shape), at) == expected


def test_one_name_has_one_range_wherever_it_stands() -> None:
    rows = [
        TensorView(name="ids", dtype="int64", shape=[1, "dim"]),
        TensorView(name="image", dtype="float32", shape=[1, 3, "dim", "dim"]),
    ]

    proposed = propose(rows)

    assert proposed["image"].max[2:] == [proposed["ids"].max[1]] * 2


@pytest.mark.parametrize("names", [(None, None, None), ("batch", "sequence", "batch"), ("?",) * 3])
def test_a_model_that_keeps_a_state_gets_one_frame_and_one_batch_everywhere(
    names: tuple[str | None, ...],
) -> None:
    batch, length, of_state = names
    rows = [
        TensorView(name="input", dtype="float32", shape=[batch, length]),
        TensorView(name="state", dtype="float32", shape=[2, of_state, 128]),
    ]

    proposed = propose(rows)

    assert proposed["input"].min == [1, 576]
    assert proposed["input"].max == [8, 576]
    assert (proposed["state"].min, proposed["state"].max) == ([2, 1, 128], [2, 8, 128])


@pytest.mark.parametrize("name", ["h", "c", "h0", "c_in", "hidden", "state", "cell_state"])
def test_the_batch_of_a_state_without_a_name_is_a_batch(name: str) -> None:
    assert axis(TensorView(name=name, dtype="float32", shape=[1, None, 64]), 1) == BATCH


def test_three_dimensions_alone_are_no_state() -> None:
    assert axis(TensorView(name="x", dtype="float32", shape=[1, None, 64]), 1) == (16, 64, 256)


def test_axes_that_share_a_placeholder_are_guessed_each_for_itself() -> None:
    proposed = propose([TensorView(name="x", dtype="float32", shape=["?", 3, "?", "?"])])

    assert proposed["x"].max == [8, 3, 640, 640]
