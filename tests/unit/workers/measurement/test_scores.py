"""How often two sides choose the same class."""

from __future__ import annotations

import numpy as np
import pytest

from workers.measurement.scores import ScoreTally

TEN = np.arange(10, dtype="f")[None, :] / 100


def agreed(reference: object, engine: object) -> tuple[float | None, float | None]:
    tally = ScoreTally("logits")
    tally.add(np.asarray(reference, dtype="f"), np.asarray(engine, dtype="f8"))
    return tally.top1, tally.top5


def test_the_best_of_the_original_may_be_among_the_five_of_the_engine() -> None:
    fourth = TEN.copy()
    fourth[0, 9] = 0.055  # behind 8, 7 and 6: the fourth
    sixth = TEN.copy()
    sixth[0, 9] = 0.035  # behind 8, 7, 6, 5 and 4: the sixth

    assert agreed(TEN, TEN) == (1.0, 1.0)
    assert agreed(TEN, fourth) == (0.0, 1.0)
    assert agreed(TEN, sixth) == (0.0, 0.0)
    one, five = agreed(np.concatenate([TEN] * 3), np.concatenate([TEN, fourth, sixth]))
    assert one == pytest.approx(1 / 3)
    assert five == pytest.approx(2 / 3)


def test_five_classes_have_no_best_five() -> None:
    assert agreed(TEN[:, :5], TEN[:, :5]) == (1.0, None)
    assert agreed(TEN[:, :6], TEN[:, :6]) == (1.0, 1.0)


def test_an_engine_that_gives_the_same_for_all_classes_does_not_agree_by_luck() -> None:
    assert agreed(TEN, np.zeros((1, 10))) == (0.0, 0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_agrees_in_nothing(value: float) -> None:
    spoilt = TEN.copy()
    spoilt[0, 9] = value
    assert agreed(TEN, spoilt) == (0.0, 0.0)


def test_what_is_no_score_has_no_agreement() -> None:
    tally = ScoreTally("embedding")
    tally.add(np.ones((2, 8), dtype="f"), np.ones((2, 8)))
    assert (tally.top1, tally.top5) == (None, None)
