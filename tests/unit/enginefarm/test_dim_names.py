"""One rule says which names of dimensions only mean "any", wherever it matters."""

from __future__ import annotations

import pytest

from enginefarm.dim_names import is_placeholder
from enginefarm.errors import InvalidProfile
from enginefarm.preflight.rules.profiles import agreed
from enginefarm.profile import check_profiles
from enginefarm.spec import ShapeRange
from enginefarm.views import TensorView

MEANINGLESS = ["?", "-1", "", " ", "None", "unk", "unknown", "NaN", "any", "dynamic", "0", " ? "]
MEANT = ["batch", "n", "N", "unk__214", "p2o.DynamicDimension.0", "anything", "s0", "\u6279"]


@pytest.mark.parametrize("name", MEANINGLESS)
def test_what_exporters_write_who_mean_any_is_no_name(name: str) -> None:
    assert is_placeholder(name)


@pytest.mark.parametrize("name", MEANT)
def test_a_name_with_a_letter_means_one_size(name: str) -> None:
    assert not is_placeholder(name)


@pytest.mark.parametrize("name", [*MEANINGLESS[:2], *MEANINGLESS[4:], *MEANT])
def test_submit_check_and_rules_agree_about_a_name(name: str) -> None:
    rows = [TensorView(name=each, dtype="float32", shape=[name]) for each in ("a", "b")]
    profile = {
        "a": ShapeRange(min=[1], opt=[4], max=[8]),
        "b": ShapeRange(min=[2], opt=[4], max=[9]),
    }
    if is_placeholder(name):
        check_profiles(rows, [profile])
    else:
        with pytest.raises(InvalidProfile):
            check_profiles(rows, [profile])
    assert (agreed(rows, profile) == profile) is is_placeholder(name)
