"""What an engine's output is worth against the original's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from enginefarm.report import OutputAccuracy
from workers.measurement.accuracy import FAINT_REFERENCE, OutputTally, cosine
from workers.measurement.scores import is_score


def compare(
    reference: npt.ArrayLike, engine: npt.ArrayLike, *, batch_first: bool = True
) -> OutputAccuracy:
    """Compare one batch."""
    tally = OutputTally("y", batch_first=batch_first)
    tally.add(np.asarray(reference), np.asarray(engine))
    return tally.result()


def test_equal_outputs_are_exact_and_have_no_noise() -> None:
    found = compare(np.arange(6, dtype="f").reshape(2, 3), np.arange(6, dtype="f").reshape(2, 3))
    assert found.exact
    assert (found.max_abs_error, found.mean_abs_error, found.snr_db) == (0.0, 0.0, None)
    assert found.cosine == 1.0


def test_known_errors() -> None:
    found = compare([[3.0, 4.0]], [[3.0, 5.0]])
    assert found.max_abs_error == 1.0
    assert found.mean_abs_error == 0.5
    assert found.max_rel_error == 0.25
    assert found.mean_rel_error == 0.125
    assert found.snr_db == pytest.approx(10 * math.log10(25))
    assert found.cosine == pytest.approx(29 / (5 * math.sqrt(34)))
    assert not found.exact


def test_cosine_is_of_all_samples_together_and_the_worst_stands_beside_it() -> None:
    found = compare([[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    assert found.cosine == pytest.approx(0.5)
    assert found.cosine_worst == 0.0


def test_rounding_in_a_faint_sample_does_not_spoil_the_cosine_of_all() -> None:
    rng = np.random.default_rng(3)
    strong, faint = rng.uniform(0, 1, 1000), np.zeros(1000)
    faint[:23] = 3e-6
    noisy = faint.copy()
    noisy[:23] += 1.8e-7 * rng.choice([-1, 1], 23)
    tally = OutputTally("map", batch_first=True)
    tally.add(np.stack([strong, faint]), np.stack([strong, noisy]))

    found = tally.result()
    assert found.cosine == pytest.approx(1.0, abs=1e-12)
    assert found.cosine_worst is not None
    assert found.cosine_worst < 0.999
    assert found.reference_max_abs == pytest.approx(strong.max())
    assert found.reference_zero_share == pytest.approx(977 / 2000)
    (note,) = tally.notes()
    assert note.startswith("map: in 1 of 2 samples no value of the reference is above")
    assert "max_abs_error" in note


@pytest.mark.parametrize("strength", [FAINT_REFERENCE * 1.01, 1.0])
def test_a_signal_above_the_noise_is_not_remarked_upon(strength: float) -> None:
    tally = OutputTally("y", batch_first=True)
    tally.add(np.array([[strength, 0.0]]), np.array([[strength, 1e-9]]))
    assert tally.notes() == []


def test_equal_outputs_need_no_remark_however_faint() -> None:
    tally = OutputTally("y", batch_first=True)
    tally.add(np.zeros((2, 3)), np.zeros((2, 3)))
    assert tally.notes() == []
    found = tally.result()
    assert (found.reference_max_abs, found.reference_zero_share) == (0.0, 1.0)


def test_pieces_of_very_different_sizes_make_one_cosine() -> None:
    parts = [np.array([[1e-200, 0.0]]), np.array([[1e200, 0.0]]), np.array([[1.0, 2.0]])]
    tally = OutputTally("y", batch_first=True)
    for part in parts:
        tally.add(part, part[:, ::-1])
    assert tally.result().cosine == pytest.approx(0.0, abs=1e-12)


def test_without_a_batch_axis_the_whole_is_one_sample() -> None:
    found = compare([[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], batch_first=False)
    assert found.cosine == pytest.approx(0.5)


def test_batches_add_up_to_what_one_batch_gives() -> None:
    rng = np.random.default_rng(1)
    left = rng.standard_normal((6, 5))
    right = left + rng.standard_normal((6, 5)) * 0.01
    parts = OutputTally("y", batch_first=True)
    for start in (0, 2, 4):
        parts.add(left[start : start + 2], right[start : start + 2])
    whole, summed = compare(left, right), parts.result()
    assert summed.snr_db == pytest.approx(whole.snr_db)
    assert summed.reference_max_abs == whole.reference_max_abs
    for name in ("max_abs_error", "mean_abs_error", "max_rel_error", "cosine", "cosine_worst"):
        assert getattr(summed, name) == pytest.approx(getattr(whole, name))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_engine_that_gives_no_number_fails_every_measure(value: float) -> None:
    found = compare([[1.0, 2.0, 3.0]], [[1.0, value, 3.0]])
    assert found.nonfinite_engine == 1
    assert found.max_abs_error > 1e38
    assert found.snr_db is not None
    assert found.snr_db < -100
    assert found.cosine is not None
    assert abs(found.cosine) < 0.6  # it would be 0.85 if the hole were taken for a zero
    assert not found.exact


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_where_both_agree_on_no_number_nothing_is_wrong(value: float) -> None:
    found = compare([[1.0, value, 3.0]], [[1.0, value, 3.0]])
    assert found.exact
    assert found.max_abs_error == 0.0
    assert (found.nonfinite_engine, found.nonfinite_reference) == (1, 1)
    assert found.nan_reference == (1 if np.isnan(value) else 0)


def test_infinities_of_different_sign_do_not_agree() -> None:
    assert compare([[np.inf, 1.0]], [[-np.inf, 1.0]]).max_abs_error > 1e38


def test_every_number_in_a_report_is_json() -> None:
    found = compare([[np.nan, 0.0]], [[np.inf, 0.0]])
    assert "NaN" not in found.model_dump_json()
    assert math.isfinite(found.max_abs_error)


def test_numbers_beyond_single_precision_leave_every_measure_finite() -> None:
    found = compare(np.array([[1e300, -1e300]]), np.array([[-1e300, 1e300]]))
    assert found.max_abs_error < 1e39
    assert found.snr_db is not None
    assert math.isfinite(found.snr_db)
    assert found.cosine == pytest.approx(-1.0)


def test_zero_vectors() -> None:
    assert compare([[0.0, 0.0]], [[0.0, 0.0]]).cosine is None
    assert compare([[0.0, 0.0]], [[0.0, 1.0]]).cosine == 0.0
    assert compare([[1.0, 0.0]], [[0.0, 0.0]]).cosine == 0.0


def test_relative_error_leaves_out_tiny_references() -> None:
    assert compare([[1e-9, 0.0]], [[1e-3, 0.0]]).max_rel_error is None


def test_huge_and_tiny_vectors_have_a_cosine() -> None:
    assert cosine(np.array([1e200, 1e200]), np.array([1e200, 1e200])) == 1.0
    assert cosine(np.array([1e-200, 0.0]), np.array([1e-200, 0.0])) == 1.0


def test_whole_numbers_and_half_precision_are_compared_too() -> None:
    assert compare(np.array([1, 2]), np.array([1, 3])).max_abs_error == 1.0
    found = compare(np.ones((1, 4), "f"), np.ones((1, 4), "f2"))
    assert (found.dtype_reference, found.dtype_engine) == ("float32", "float16")


def test_another_shape_is_not_compared() -> None:
    with pytest.raises(ValueError, match="instead of"):
        compare(np.zeros((2, 3)), np.zeros((3, 2)))


def test_an_empty_output_is_compared() -> None:
    found = compare(np.zeros((0, 4)), np.zeros((0, 4)))
    assert found.exact
    assert (found.reference_max_abs, found.reference_zero_share) == (None, None)


SOFTMAX = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], "f")


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("y", SOFTMAX, True),
        ("y", SOFTMAX[None], True),  # a sequence of distributions
        ("logits", np.array([[3.0, -1.0]]), True),
        ("embedding", np.array([[3.0, -1.0]]), False),
        ("logits", np.zeros((1, 3, 8, 8)), False),  # a map is not a row of classes
        ("scores", np.array([0.5, 0.5]), False),
        ("scores", np.array([[0.5]]), False),
        ("label", np.array([[1, 2]]), False),
        ("y", np.array([[0.9, 0.9]]), False),  # sigmoid: several may be true
        ("logits", np.array([[np.nan, 1.0]]), False),
    ],
)
def test_what_counts_as_a_score(name: str, values: npt.NDArray[Any], expected: bool) -> None:  # noqa: FBT001 - the answer
    assert is_score(name, values) is expected


def test_top1_counts_rows_that_agree() -> None:
    engine = np.array([[0.6, 0.3, 0.1], [0.8, 0.1, 0.1]], "f")
    assert compare(SOFTMAX, engine).top1_agreement == 0.5


def test_top1_is_absent_where_the_output_is_no_score() -> None:
    assert compare(np.array([[3.0, 1.0]]), np.array([[3.0, 1.0]])).top1_agreement is None


def test_a_row_without_numbers_never_agrees() -> None:
    assert compare(SOFTMAX, np.full_like(SOFTMAX, np.nan)).top1_agreement == 0.0
