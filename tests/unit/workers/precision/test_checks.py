"""Calibration data is looked at before anything is calibrated with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from enginefarm.finding import Finding, Severity
from enginefarm.spec import Profile
from tests.unit.workers.precision.made import PROFILE, images, one_by_one
from workers.backends.base import Array
from workers.precision.checks import Look, data_report, judge, look_at, noisy
from workers.precision.seen import length_of

FITS = TypeAdapter(list[Profile]).validate_python([PROFILE])


def look(array: Array) -> Look:
    return look_at(one_by_one(array), FITS)


def found(look: Look, held_out: Look | None = None) -> dict[str, Finding]:
    return {row.code: row for row in judge(look, held_out)}


def codes(*looks: Any) -> set[str]:  # noqa: ANN401 - one look or two
    return set(found(*looks))


def test_good_data_is_only_told_to_be_few() -> None:
    assert codes(look(images(0, 32)), look(images(500, 32))) == {"calibration_few_samples"}
    enough = np.concatenate([images(0, 32) + each / 1000 for each in range(16)])
    assert codes(look(enough.astype(np.float32)), look(images(500, 32))) == set()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_one_sample_that_is_not_finite_stops_it_and_is_named(bad: float) -> None:
    array = images(0, 16)
    array[5, 1, 3, 3] = bad
    row = found(look(array))["calibration_not_finite"]
    assert row.severity is Severity.ERROR
    assert row.where == "sample 5, x"


def test_one_sample_is_refused_where_nothing_judges_it_and_let_through_elsewhere() -> None:
    one = look(images(1, 1))
    assert codes(one, look(images(500, 32))) == {"calibration_few_samples"}
    refused = found(one)["calibration_too_few"]
    assert refused.severity is Severity.ERROR
    assert "calibration_too_few" in codes(look(images(0, 1)[:0]), look(images(500, 8)))


def test_a_range_that_is_not_the_held_out_datas_is_told_with_its_ratio() -> None:
    raw = found(look(images(0, 32) * 255), look(images(500, 32)))["calibration_range_differs"]
    assert raw.severity is Severity.WARNING
    times = float(raw.message.split()[-4])
    assert 200 < times < 320
    assert "calibration_range_differs" not in codes(look(images(0, 32)), look(images(500, 32)))


def noise(kind: str) -> Array:
    rng = np.random.default_rng(3)
    shape = (32, 3, 32, 32)
    made = rng.standard_normal(shape) if kind == "normal" else rng.uniform(0, 1, shape)
    return made.astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_noise_is_refused_unless_real_data_judges_it_and_then_it_has_a_label(kind: str) -> None:
    made, real = look(noise(kind)), look(images(500, 32))
    assert found(made)["calibration_noise"].severity is Severity.ERROR
    assert found(made, real)["calibration_noise"].severity is Severity.WARNING
    assert noisy(made, real) == ["x"]


def test_noise_that_the_evaluation_data_is_as_well_is_what_the_model_is_for() -> None:
    assert noisy(look(noise("normal")), look(noise("normal")[::-1].copy())) == []


def tokens(uniform: bool) -> Iterable[dict[str, Array]]:  # noqa: FBT001 - which of two
    rng = np.random.default_rng(1)
    for _ in range(32):
        if uniform:
            yield {"ids": rng.integers(0, 30_000, (1, 128))}
        else:
            words = 1996 + np.minimum(rng.pareto(0.7, (1, 128)) * 60, 20_000).astype(np.int64)
            words[:, int(rng.integers(8, 128)) :] = 0
            yield {"ids": words}


def test_random_token_ids_look_like_noise_and_sentences_do_not() -> None:
    assert noisy(look_at(tokens(uniform=True)), None) == ["ids"]
    assert noisy(look_at(tokens(uniform=False)), None) == []


def test_what_is_there_twice_or_never_changes_is_told() -> None:
    twice = np.concatenate([images(0, 8), images(0, 8)])
    assert "8 of 16 samples" in found(look(twice))["calibration_duplicates"].message
    still = np.full((16, 3, 32, 32), 0.5, np.float32)
    assert "calibration_constant" in codes(look(still), look(images(500, 8)))


def test_sizes_inside_the_profile_are_counted_and_those_outside_are_named() -> None:
    small = {"x": {each: [1, 3, 32, 32] for each in ("min", "opt", "max")}}
    larger = {"x": {"min": [1, 3, 64, 64], "opt": [1, 3, 64, 64], "max": [4, 3, 128, 128]}}
    sizes = TypeAdapter(list[Profile]).validate_python([small, larger])
    samples = [{"x": np.tile(images(i, 1), (1, 1, 1 + i % 3, 1 + i % 3))} for i in range(15)]
    fits = look_at(samples, sizes)
    assert "calibration_outside_profile" not in codes(fits, look(images(500, 8)))
    assert data_report(fits, None).sizes == 3
    large = [*samples, {"x": np.tile(images(99, 1), (1, 1, 5, 5))}]
    row = found(look_at(large, sizes))["calibration_outside_profile"]
    assert row.severity is Severity.ERROR
    assert "sample 15: x is [1, 3, 160, 160]" in row.where


def sentences(length: int, *, first: int = 0) -> Iterable[dict[str, Array]]:
    """Yield sentences of about so many tokens, padded to 128, and which tokens are there."""
    for number in range(first, first + 16):
        rng = np.random.default_rng(number)
        count = int(length * rng.uniform(0.7, 1.3))
        ids, there = np.zeros((1, 128), np.int64), np.zeros((1, 128), np.int64)
        ids[0, :count], there[0, :count] = rng.integers(1000, 30_000, count), 1
        yield {"ids": ids, "mask": there}


def test_short_sentences_for_long_ones_are_told_whatever_they_are_padded_to() -> None:
    code = "calibration_length_differs"
    short, long = look_at(sentences(12)), look_at(sentences(70))
    told = [row for row in judge(short, long) if row.code == code]
    assert ["input ids" in told[0].message, "input mask" in told[1].message] == [True, True]
    assert "12" in told[1].message
    assert code in codes(long, short)
    assert code not in codes(look_at(sentences(60, first=100)), long)


def test_narrow_pictures_for_wide_ones_are_told() -> None:
    wide = ({"x": np.tile(row["x"], (1, 1, 1, 3))} for row in one_by_one(images(0, 8)))
    assert "calibration_length_differs" in codes(look_at(wide), look(images(500, 8)))


@pytest.mark.parametrize(
    ("row", "length"),
    [
        ([101, 7, 8, 102], 4),
        ([101, 7, 102, 0, 0], 3),
        ([0, 0, 0, 101, 7, 102], 3),
        ([1, 1, 1, 0], 3),
        ([0, 1, 1], 2),
        ([1, 1, 1], 3),
        ([9, 9, 9], 3),
        ([5, 6, 0], 3),
    ],
)
def test_padding_at_either_end_of_a_row_is_no_part_of_its_length(
    row: list[int], length: int
) -> None:
    assert length_of(np.array([row], np.int64)) == length


def test_the_report_has_both_ranges() -> None:
    told = data_report(look(images(0, 8) * 2), look(images(500, 8))).inputs[0]
    assert told.max == pytest.approx(2 * float(images(0, 8).max()))
    assert told.evaluation_max == pytest.approx(float(images(500, 8).max()))
    assert told.mean == pytest.approx(float((images(0, 8) * 2).mean()), rel=1e-5)
    assert told.std == pytest.approx(float((images(0, 8) * 2).std()), rel=1e-4)


def test_doubles_of_any_size_are_summed_up() -> None:
    huge = np.sign(images(0, 12).astype(np.float64) - 0.5) * np.finfo(np.float64).max
    seen = look(huge)
    assert not any(row.severity is Severity.ERROR for row in judge(seen, seen))
    told = data_report(seen, None).inputs[0]
    assert told.max == np.finfo(np.float64).max
    assert np.isfinite([told.mean, told.std]).all()
