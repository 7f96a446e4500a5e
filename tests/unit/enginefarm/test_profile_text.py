"""Shapes are read as people write them, and written so that they can be pasted back."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginefarm.cli.arguments import profiles
from enginefarm.errors import InvalidProfile
from enginefarm.profile_text import MAX_DIM, as_flags, parse_shape_range, shape_text
from enginefarm.spec import ShapeRange

SHAPES = st.lists(st.integers(0, MAX_DIM), min_size=1, max_size=5)
RANGES = st.builds(ShapeRange, min=SHAPES, opt=SHAPES, max=SHAPES)
NAMES = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1)


def test_three_shapes_are_a_range_and_one_is_all_three() -> None:
    assert parse_shape_range(" 1x3:2X3 : 4x3 ") == ShapeRange(min=[1, 3], opt=[2, 3], max=[4, 3])
    assert parse_shape_range("7") == ShapeRange(min=[7], opt=[7], max=[7])


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "1:2",
        "1:2:3:4",
        "1x:2:3",
        "x1",
        "1x-3",
        "1.5",
        "1_0",
        "٣",
        "1 x 3",
        f"{MAX_DIM + 1}",
    ],
)
def test_what_is_no_range_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(InvalidProfile) as caught:
        parse_shape_range(text)

    assert caught.value.code == "profile_syntax"
    assert "MIN:OPT:MAX" in caught.value.fix


@given(st.dictionaries(NAMES.filter(lambda name: name == name.strip()), RANGES, min_size=1))
def test_a_profile_is_pasted_back_as_it_was(profile: dict[str, ShapeRange]) -> None:
    flag, text = shlex.split(as_flags(profile))

    assert flag == "--profile"
    assert profiles([text]) == [profile]


def test_a_shape_is_told_with_its_names_and_what_may_be_any() -> None:
    assert shape_text(["batch", 3, None]) == "[batch, 3, ?]"
    assert shape_text([]) == "[]"
