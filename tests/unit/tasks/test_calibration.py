"""A dry run says of calibration data what the stage will say, as far as the file tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from enginefarm import calibration_findings as say
from enginefarm.finding import Finding, Severity
from enginefarm.spec import Profile
from enginefarm.tensor import StoredArray, TensorView
from intake.datasets import scan_npz
from tasks.calibration import Feed, findings
from workers.precision.checks import judge, look_at
from workers.precision.samples import Samples

PROFILES = TypeAdapter(list[Profile])
RNG = np.random.default_rng(11)
WALK = np.cumsum(RNG.standard_normal((600, 16)), axis=1).astype(np.float32)
"""Rows that no rule takes for noise."""
X = TensorView(name="x", dtype="float32", shape=["n", 16])
IDS = TensorView(name="ids", dtype="int64", shape=["n", "length"])
ONLY_READ = {"calibration_duplicates", "calibration_noise"}
Arrays = dict[str, Any]


def stored(folder: Path, name: str, arrays: Arrays) -> tuple[Path, list[StoredArray]]:
    path = folder / f"{name}.npz"
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    with path.open("rb") as stream:
        found = scan_npz(stream).arrays
    # As it comes back from a column of JSON.
    return path, [StoredArray.model_validate(row.model_dump(mode="json")) for row in found]


def both(
    folder: Path,
    view: TensorView,
    calibration: Arrays,
    evaluation: Arrays | None = None,
    *,
    profiles: list[Any] | None = None,
    most: int | None = None,
) -> tuple[list[Finding], list[Finding]]:
    """Return what a dry run says, and what the stage says."""
    wanted = PROFILES.validate_python(profiles or [])
    first = wanted[0] if wanted else None
    path, arrays = stored(folder, "calibration", calibration)
    samples = Samples(path, [view], first, most)
    held_out = real = None
    if evaluation is not None:
        other, held_out = stored(folder, "evaluation", evaluation)
        real = look_at(Samples(other, [view], first, say.MOST_LOOKED_AT), wanted)
    stage = judge(look_at(samples, wanted), real) + say.rounded(samples.rounded())
    return findings(Feed([view], wanted), arrays, held_out, most), stage


def ranged(low: int, high: int) -> Any:  # noqa: ANN401 - a profile
    return {"x": {"min": [1, low], "opt": [1, low], "max": [4, high]}}


WIDE = TensorView(name="x", dtype="float32", shape=["n", "width"])
SIZES = {"x/0": WALK[:20, :8], "x/1": WALK[:30]}
CASES: dict[str, dict[str, Any]] = {
    "enough": {"calibration": {"x": WALK}},
    "few": {"calibration": {"x": WALK[:40]}, "evaluation": {"x": WALK[100:140]}},
    "too few": {"calibration": {"x": WALK[:3]}},
    "few and judged": {"calibration": {"x": WALK[:3]}, "evaluation": {"x": WALK[100:140]}},
    "rounded": {"calibration": {"x": WALK[:40].astype(np.float64)}},
    "constant": {"calibration": {"x": np.full((40, 16), 7, np.float32)}},
    "not prepared": {"calibration": {"x": WALK * 255}, "evaluation": {"x": WALK[:40]}},
    "of a fixed batch": {
        "calibration": {"x": WALK[:30]},
        "view": TensorView(name="x", dtype="float32", shape=[4, 16]),
    },
    "whole inputs": {"calibration": {"x": WALK[:40].reshape(10, 4, 16)}},
    "of two sizes": {"calibration": SIZES, "view": WIDE},
    "outside": {"calibration": SIZES, "view": WIDE, "profiles": [ranged(16, 16)]},
    "in one of two profiles": {
        "calibration": SIZES,
        "view": WIDE,
        "profiles": [ranged(16, 16), ranged(8, 8)],
    },
    "in none": {"calibration": {"x": WALK[:40]}, "view": WIDE, "profiles": [ranged(1, 8)]},
    "longer": {
        "calibration": SIZES,
        "view": WIDE,
        "evaluation": {"x": WALK[:40, :4]},
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_says_just_what_the_stage_will_say(tmp_path: Path, case: dict[str, Any]) -> None:
    asked = {"view": X} | case
    early, late = both(tmp_path, **asked)
    (rest,) = [row for row in early if row.code == "calibration_seen_later"]
    assert rest.severity is Severity.NOTE
    assert "random noise" in rest.message
    told = sorted((row for row in early if row is not rest), key=repr)
    assert told == sorted((row for row in late if row.code not in ONLY_READ), key=repr)


def test_every_rule_of_the_stage_is_met_by_a_case_or_named_as_seen_later(tmp_path: Path) -> None:
    met = set()
    for number, case in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        met |= {row.code for row in both(folder, **({"view": X} | case))[0]}
    assert met == {
        "calibration_constant",
        "calibration_few_samples",
        "calibration_length_differs",
        "calibration_outside_profile",
        "calibration_range_differs",
        "calibration_rounded",
        "calibration_seen_later",
        "calibration_too_few",
    }


def test_what_only_some_samples_decide_is_left_to_the_stage(tmp_path: Path) -> None:
    spoilt = WALK[:40].copy()
    spoilt[30:] *= 1000
    early, late = both(tmp_path, X, {"x": spoilt}, {"x": WALK[:40]}, most=20)
    assert {row.code for row in late} == {"calibration_few_samples"}
    assert [row.code for row in early] == ["calibration_few_samples", "calibration_seen_later"]
    assert "20 samples" in early[0].message
    assert "the ranges of their values" in early[1].message


def test_how_long_rows_of_tokens_are_is_left_to_the_stage(tmp_path: Path) -> None:
    rows = np.zeros((20, 64), np.int64)
    rows[:, :5] = 9 + np.arange(20)[:, None]
    early, late = both(tmp_path, IDS, {"ids": rows}, {"ids": rows[:, :6] + 1})
    assert "calibration_length_differs" not in {row.code for row in [*early, *late]}
    assert "without their padding" in early[-1].message


def test_of_a_file_from_before_ranges_were_kept_they_are_left_to_the_stage() -> None:
    older = StoredArray.model_validate({"name": "x", "dtype": "float32", "shape": [600, 16]})
    (only,) = findings(Feed([X]), [older], None)
    assert "the ranges of their values" in only.message
