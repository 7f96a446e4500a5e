"""What goes with an artifact that is taken back, and which jobs rest on such results."""

from __future__ import annotations

import pytest

from enginefarm.state import JobState, Stage
from storage.models import Job
from tasks.taking_back import goes_with, rests_on

MADE = JobState.SUCCEEDED


def chain(twin: JobState = MADE) -> dict[str, Job]:
    """Return the jobs of an engine that is calibrated, and measured beside a twin on two SKUs."""
    rows = {
        "repair": (Stage.REPAIR, None, None, MADE),
        "calibrate": (Stage.CALIBRATE, None, None, MADE),
        "check": (Stage.CHECK, None, None, MADE),
        "compile": (Stage.COMPILE, None, None, MADE),
        "twin cast": (Stage.CAST, "fp16", None, MADE),
        "twin compile": (Stage.COMPILE, "fp16", None, twin),
        "on l4": (Stage.BENCHMARK, None, "l4", MADE),
        "on l40s": (Stage.BENCHMARK, None, "l40s", JobState.FAILED),
        "publish": (Stage.PUBLISH, None, None, JobState.WAITING),
    }
    return {
        name: Job(id=name, position=n, stage=stage, twin=twin, sku=sku, state=state)
        for n, (name, (stage, twin, sku, state)) in enumerate(rows.items())
    }


def test_what_was_made_for_it_goes_with_it_and_what_serves_others_stays() -> None:
    gone = [row.id for row in goes_with([*chain().values()])]
    assert gone == ["calibrate", "compile", "on l4", "on l40s", "publish"]


@pytest.mark.parametrize(
    ("name", "twin", "on"),
    [
        ("calibrate", MADE, []),
        ("check", MADE, ["calibrate"]),
        ("compile", MADE, ["calibrate"]),
        ("twin cast", MADE, ["calibrate", "compile"]),
        ("twin compile", MADE, ["calibrate", "compile", "twin cast"]),
        ("on l40s", MADE, ["calibrate", "compile", "twin cast", "twin compile"]),
        ("on l40s", JobState.FAILED, ["calibrate", "compile"]),
        ("publish", MADE, ["calibrate", "compile", "twin cast", "twin compile", "on l4"]),
        ("publish", JobState.CANCELLED, ["calibrate", "compile", "on l4"]),
    ],
)
def test_a_job_rests_on_what_was_made_before_it_and_on_a_twin_only_where_there_is_one(
    name: str, twin: JobState, on: list[str]
) -> None:
    rows = chain(twin)
    assert [row.id for row in rests_on(rows[name], [*rows.values()])] == on
