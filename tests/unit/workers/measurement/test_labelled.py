"""Metrics by labels, against values that were worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from workers.measurement import labelled
from workers.measurement.labelled import NOTHING, Unfit, classes, edit_distance


def whole(*values: object) -> labelled.Whole:
    return np.array(values, dtype=np.int64)


def test_accuracy_is_the_share_of_right_answers() -> None:
    assert labelled.accuracy(whole(0, 1, 2, 2), whole(0, 1, 1, 2)) == 0.75


def test_f1_is_averaged_over_the_classes_that_there_are() -> None:
    # Class 0: 2 hits, named 3 times, there 2: 4/5. Class 1: 1 hit, named 1, there 2: 2/3.
    # Class 7 was predicted once and is no label: it has no F1 of its own.
    predicted, labels = whole(0, 0, 0, 1, 7), whole(0, 0, 1, 1, 0)
    first, second = 2 * 2 / (3 + 3), 2 * 1 / (1 + 2)
    assert labelled.f1_macro(predicted, labels) == pytest.approx((first + second) / 2)


def test_an_embedding_finds_its_nearest_other_by_direction() -> None:
    # 0 and 1 point the same way, whatever their length; 2 and 3 are of one label and far apart:
    # 2 is nearest to 1, 3 is nearest to 2. 4 is alone with its label.
    vectors = np.array([[1, 0], [9, 0.1], [1, 1], [-1, 2], [-1, -1]], dtype="f4")
    labels = whole(5, 5, 6, 6, 7)
    found = labelled.embedding_recall(vectors, labels, 1)
    # 0 finds 1, 1 finds 0, 2 finds 1 (cosine .71 against .32), 3 finds 2.
    assert found == (0.75, 4)


@pytest.mark.parametrize(("nearest", "rest"), [(1, 0), (2, 2), (3, 3), (4, 5), (5, 6)])
def test_among_more_of_the_nearest_more_is_found(nearest: int, rest: int) -> None:
    # Angles, labels, and the others from the nearest on, with the one of the same label at last:
    #   0 a: 10 b, 35 a                       second
    #  10 b: 0 a, 35 a, 69 c, 110 b           fourth
    #  35 a: 10 b (25 away), 69 c (34), 0 a (35)  third
    #  69 c: 35 a, 110 b, 10 b, 0 a, 160 c    fifth
    # 110 b: 69 c, 160 c, 35 a, 10 b          fourth
    # 160 c: 110 b, 69 c                      second
    angles = np.deg2rad([0, 10, 35, 69, 110, 160])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("f4")
    found = labelled.embedding_recall(vectors, whole(1, 2, 1, 3, 2, 3), nearest)
    assert found is not None
    assert found[0] == pytest.approx(rest / 6)
    assert found[1] == 6


def test_an_embedding_that_is_not_finite_finds_nothing_and_is_not_found() -> None:
    vectors = np.array([[1, 0], [np.nan, 0], [0, 1], [0.1, 1]], dtype="f4")
    assert labelled.embedding_recall(vectors, whole(1, 1, 2, 2), 1) == (0.5, 4)


def test_labels_of_which_none_occurs_twice_ask_for_nothing() -> None:
    assert labelled.embedding_recall(np.eye(3, dtype="f4"), whole(1, 2, 3), 1) is None


def test_tokens_are_compared_place_by_place_without_the_padding() -> None:
    predicted, labels = whole([1, 2, 9], [3, 3, 3]), whole([1, 5, -1], [3, 3, 4])
    assert labelled.token_errors(predicted, labels, -1) == (2, 5)


def test_padding_beyond_the_last_token_is_no_label_of_any() -> None:
    assert labelled.token_errors(whole([1, 2]), whole([1, 3, -1, -1]), -1) == (1, 2)


def test_tokens_that_do_not_stand_beside_their_labels_are_not_judged() -> None:
    with pytest.raises(Unfit, match="do not stand beside"):
        labelled.token_errors(whole([1, 2]), whole([1, 2, 3]), -1)


def test_ctc_merges_repetitions_and_leaves_out_blanks_before_it_counts() -> None:
    # 1 1 _ 1 2 2 spells 1 1 2; 0 is the blank. Wanted 1 1 3: one replacement of three.
    # The second row spells nothing, and two labels are missing.
    steps = whole([1, 1, 0, 1, 2, 2], [0, 0, 0, 0, 0, 0])
    labels = whole([1, 1, 3], [4, 4, -1])
    assert labelled.ctc_errors(steps, labels, -1, 0) == (3, 5)


def test_the_blank_may_be_another_class() -> None:
    assert labelled.ctc_errors(whole([0, 9, 0]), whole([0, 0]), -1, 9) == (0, 2)


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("abc", "", 3),
        ("abc", "abc", 0),
        ("flaw", "lawn", 2),
    ],
)
def test_edit_distances_as_in_the_textbooks(left: str, right: str, distance: int) -> None:
    assert edit_distance(list(map(ord, left)), list(map(ord, right))) == distance


def test_a_prediction_is_the_output_itself_or_its_largest_score() -> None:
    assert classes(np.array([[0.1, 0.9], [0.5, 0.5]], dtype="f"), 1).tolist() == [1, 0]
    assert classes(np.array([3, 4], dtype="i4"), 1).tolist() == [3, 4]
    assert classes(np.array([[3], [4]]), 1).tolist() == [3, 4]
    assert classes(np.zeros((2, 5, 7), dtype="f"), 2).shape == (2, 5)


def test_a_score_that_is_not_finite_predicts_nothing() -> None:
    assert classes(np.array([[np.nan, 1], [0, 1]], dtype="f"), 1).tolist() == [NOTHING, 1]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2, 2)])
def test_numbers_that_are_no_scores_are_not_judged(shape: tuple[int, ...]) -> None:
    with pytest.raises(Unfit, match="neither a class nor scores"):
        classes(np.zeros(shape, dtype="f"), 1)
