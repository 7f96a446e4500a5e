"""Which candidates are on the front, which one is chosen, and that a no is an honest one."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.precision import Precision
from enginefarm.report import GateVerdict
from enginefarm.search_views import AccuracyOf, Outcome
from tasks.search.choice import choose, front, nearest, preferred
from tasks.search.outcome import untried
from tasks.search.tried import Tried
from tasks.search.words import notes, verdict
from tests.unit.tasks.search.answers import DATA, failed, outcome, spec

INT8 = Precision.model_validate({"kind": "int8", "method": "minmax", "exclude": ["a", "b"]})
TRIED = {
    1: Tried(Precision(), None),
    2: Tried(INT8, None),
    3: Tried(INT8, None),
    4: Tried(INT8, None, "wide"),
}


def original(**more: Any) -> Outcome:  # noqa: ANN401 - any field
    told: dict[str, Any] = {"accuracy_of": AccuracyOf.ORIGINAL, "latency_p99_ms": None}
    exact = outcome(1.0).model_copy(update=told | {"cosine": None, "verdicts": []} | more)
    return exact.model_copy(update={"met": True, "accurate": True})


def test_what_another_beats_in_everything_is_not_on_the_front() -> None:
    outcomes = {
        1: outcome(0.9999, latency_p99_ms=9, engine_bytes=4000),
        2: outcome(0.992, latency_p99_ms=3, engine_bytes=1000),
        3: outcome(0.991, latency_p99_ms=4, engine_bytes=1000),
        4: outcome(0.9, latency_p99_ms=2, engine_bytes=900),
    }
    assert front(outcomes) == [1, 2, 4]


def test_two_that_are_the_same_are_both_on_the_front_and_what_failed_is_not() -> None:
    assert front({1: outcome(0.99), 2: outcome(0.99), 3: failed()}) == [1, 2]


def test_the_fastest_that_meets_all_is_chosen_and_not_the_fastest() -> None:
    outcomes = {
        1: outcome(0.9999, latency_p99_ms=9),
        2: outcome(0.992, latency_p99_ms=3),
        3: outcome(0.9, latency_p99_ms=1),
    }
    assert choose(spec(), outcomes, TRIED) == 2


@pytest.mark.parametrize(
    ("prefer", "chosen"), [("latency", 2), ("size", 3), ("memory", 4), ("accuracy", 1)]
)
def test_what_is_preferred_decides(prefer: str, chosen: int) -> None:
    outcomes = {
        1: outcome(0.9999, latency_p99_ms=9, engine_bytes=4000, memory_bytes=4000),
        2: outcome(0.992, latency_p99_ms=3, engine_bytes=2000, memory_bytes=3000),
        3: outcome(0.993, latency_p99_ms=4, engine_bytes=1000, memory_bytes=2000),
        4: outcome(0.994, latency_p99_ms=5, engine_bytes=3000, memory_bytes=1000),
    }
    assert choose(spec(prefer=prefer), outcomes, TRIED) == chosen


def test_where_nothing_was_run_the_size_decides_and_the_original_is_exact() -> None:
    outcomes = {
        1: original(engine_bytes=4000),
        2: outcome(0.995, latency_p99_ms=None, engine_bytes=1000),
    }
    assert preferred(spec(), outcomes) == "size"
    assert choose(spec(), outcomes, TRIED) == 2
    assert front(outcomes) == [1, 2]


def test_a_no_names_what_was_required_and_the_nearest_with_its_number() -> None:
    outcomes = {2: outcome(0.97, bound=0.999), 3: outcome(0.98, bound=0.999), 4: failed()}
    assert choose(spec(0.999), outcomes, TRIED) is None
    said = verdict(spec(0.999), TRIED, outcomes, "its budget of 3 was used up")
    assert "No candidate in the space reaches cosine >= 0.999" in said
    assert "candidate 3" in said
    assert "0.98" in said
    assert "3 candidates were tried; it ended since its budget of 3 was used up." in said
    assert nearest(outcomes) == 3


def test_where_only_the_model_as_it_came_is_good_enough_it_says_what_the_others_missed() -> None:
    outcomes = {1: original(), 2: outcome(0.97)}
    said = verdict(spec(), TRIED, outcomes, "nothing was left to try")
    assert "Candidate 1 (the model as it came)" in said
    assert "No other reaches it" in said
    assert "0.97" in said


def test_where_others_are_good_enough_and_slower_it_says_so() -> None:
    outcomes = {1: outcome(1.0, latency_p99_ms=2), 2: outcome(0.995, latency_p99_ms=3)}
    said = verdict(spec(), TRIED, outcomes, "nothing was left to try")
    assert "the best by P99" in said
    assert "None of the 1 others that meet it is better by that" in said


def test_where_nothing_was_built_that_is_what_is_said() -> None:
    said = verdict(spec(), TRIED, {1: failed(), 2: failed()}, "nothing was left to try")
    assert said.startswith("No candidate became an engine.")


def test_a_search_says_from_the_beginning_what_it_cannot_do() -> None:
    asked = spec(require=[{"metric": "latency_p99_ms", "at_most": 5}], calibration=None)
    said = " ".join(notes(asked, [], reason="not run: no live node has a sm_89 device"))
    assert "int8 is not tried" in said
    assert "not run: no live node has a sm_89 device" in said
    assert "latency_p99_ms <= 5 cannot be judged here" in said
    assert "cosine >= 0.99 is taken" in said
    assert DATA not in said


def test_what_was_not_held_against_all_is_not_chosen_over_what_was() -> None:
    slow = {"metric": "latency_p99_ms", "at_most": 5}
    asked = spec(require=[{"metric": "cosine", "at_least": 0.99}, slow])
    aside = ["latency_p99_ms <= 5"]
    blind = outcome(0.999, latency_p99_ms=None, engine_bytes=1, set_aside=aside)
    outcomes = {2: outcome(0.992, latency_p99_ms=4, engine_bytes=2000), 3: blind}
    assert choose(asked, outcomes, TRIED) == 2
    assert "cosine >= 0.99 and latency_p99_ms <= 5." in verdict(asked, TRIED, outcomes, "so")
    outcomes[2] = outcome(0.992, latency_p99_ms=9, met=False)
    assert choose(asked, outcomes, TRIED) is None
    assert "not held against latency_p99_ms <= 5" in verdict(asked, TRIED, outcomes, "so")


def test_a_yes_claims_no_requirement_that_was_set_aside() -> None:
    slow = {"metric": "latency_p99_ms", "at_most": 5}
    asked = spec(require=[{"metric": "cosine", "at_least": 0.99}, slow])
    aside = ["latency_p99_ms <= 5"]
    said = verdict(asked, TRIED, {2: outcome(0.992, set_aside=aside)}, "so")
    assert "of those that meet cosine >= 0.99." in said


def tainted(cosine: float, **more: Any) -> Outcome:  # noqa: ANN401 - any field
    return outcome(cosine, tainted=["clocks were held down: SwPowerCap"], **more)


def test_a_tainted_latency_beats_none_and_is_beaten_by_what_is_as_good_in_all_else() -> None:
    outcomes = {
        1: outcome(0.999, latency_p99_ms=9),
        2: tainted(0.999, latency_p99_ms=1),
        3: tainted(0.998, latency_p99_ms=1, engine_bytes=900),
    }
    assert front(outcomes) == [1, 3]
    assert choose(spec(), outcomes, TRIED) == 1
    assert choose(spec(prefer="latency"), outcomes, TRIED) == 1
    said = verdict(spec(), TRIED, outcomes, "so")
    assert "Candidate 1" in said
    assert "The latency of 2 candidates (2, 3) is tainted and decided nothing: clocks" in said


def test_where_every_latency_is_tainted_size_decides_and_that_is_said() -> None:
    outcomes = {
        1: tainted(0.999, latency_p99_ms=1, engine_bytes=4000),
        2: tainted(0.992, latency_p99_ms=9, engine_bytes=1000),
    }
    assert preferred(spec(), outcomes) == "size"
    assert choose(spec(), outcomes, TRIED) == 2
    said = verdict(spec(), TRIED, outcomes, "so")
    assert "the engine's size" in said
    assert "Every latency is tainted and decided nothing: clocks were held down" in said


def test_where_the_fastest_is_wanted_and_every_latency_is_tainted_none_is_chosen() -> None:
    outcomes = {1: tainted(0.999), 2: tainted(0.992)}
    assert choose(spec(prefer="latency"), outcomes, TRIED) is None
    said = verdict(spec(prefer="latency"), TRIED, outcomes, "so")
    assert said.startswith("None of those that meet cosine >= 0.99 is chosen: latency decides.")
    assert "Every latency is tainted" in said


def test_what_was_not_tried_is_counted_apart_with_the_tool_that_nobody_had() -> None:
    fp8 = Precision.model_validate({"kind": "fp8"})
    outcomes = {1: original(), 2: untried(fp8), 3: untried(fp8)}
    said = verdict(
        spec(),
        {
            1: Tried(Precision(), None),
            2: Tried(fp8, None),
            3: Tried(fp8, None),
        },
        outcomes,
        "so",
    )
    assert "1 candidate was tried;" in said
    assert "2 more were not: no live node has modelopt." in said


def test_a_candidate_under_another_profile_is_told_with_its_name() -> None:
    outcomes = {2: outcome(0.992, engine_bytes=2000), 4: outcome(0.992, latency_p99_ms=1)}
    said = verdict(spec(), TRIED, outcomes, "so")
    assert "Candidate 4 (int8 by minmax, 2 kept, profile wide) is the best by P99" in said


def test_a_candidate_that_only_its_verdict_keeps_back_says_so_and_nothing_against_it() -> None:
    outcomes = {1: original(), 2: outcome(0.9999, met=False, held_back="slower than its twin")}
    said = verdict(spec(), TRIED, outcomes, "so")
    assert "No other may go out: candidate 2 meets them, and is slower than its twin." in said
    outcomes = {2: outcomes[2]}
    assert verdict(spec(), TRIED, outcomes, "so").startswith(
        "No candidate may go out: candidate 2 (int8 by minmax, 2 kept) meets cosine >= 0.99, and is"
        " slower than its twin."
    )


def missing(value: float, bound: float, **more: Any) -> Outcome:  # noqa: ANN401 - any field
    gate = {"gate": f"engine_bytes <= {bound:.0f}", "value": value, "met": False}
    row = GateVerdict.model_validate(gate | {"missed_by": value - bound})
    return outcome(0.99, **more).model_copy(update={"verdicts": [row], "met": False})


def test_the_nearest_is_what_misses_by_least_and_is_told_with_its_bound() -> None:
    outcomes = {1: missing(3_163_970, 1000), 2: missing(836_000, 1000)}
    assert nearest(outcomes) == 2
    said = verdict(spec(), TRIED, outcomes, "so")
    assert "its engine_bytes is 836,000, at most 1000." in said


def test_the_same_engine_under_another_profile_is_not_chosen_by_chance() -> None:
    same = f"sha256:{'e' * 64}"
    outcomes = {
        2: outcome(0.992, latency_p99_ms=5.0, engine=same),
        4: outcome(0.992, latency_p99_ms=4.0, engine=same),
    }
    assert choose(spec(), outcomes, TRIED) == 2
    slow = {"met": False, "held_back": "slower than its twin"}
    outcomes[2] = outcomes[2].model_copy(update=slow)
    assert choose(spec(), outcomes, TRIED) is None
    said = verdict(spec(), TRIED, outcomes, "so")
    assert "under the build's own profile the same engine may not go out" in said
    outcomes[1] = outcome(1.0, latency_p99_ms=9.0)
    assert choose(spec(), outcomes, TRIED) == 1


def test_another_profile_has_to_be_faster_by_what_matters() -> None:
    outcomes = {2: outcome(0.992, latency_p99_ms=5.0), 4: outcome(0.992, latency_p99_ms=4.9)}
    assert choose(spec(), outcomes, TRIED) == 2
    outcomes[4] = outcome(0.992, latency_p99_ms=4.0)
    assert choose(spec(), outcomes, TRIED) == 4
