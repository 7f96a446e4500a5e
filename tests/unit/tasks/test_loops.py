"""The control loops outlive trouble, end when told and are fair to each other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from enginefarm.errors import Unavailable
from tasks.loops import Loop, one_by_one, run


def test_a_loop_outlives_trouble_and_ends_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.loops._AFTER_TROUBLE_S", 0.0)
    stop = threading.Event()
    seen: list[str] = []

    def turn() -> int:
        seen.append("turn")
        if len(seen) == 1:
            raise Unavailable("The database does not answer.", code="database_away")
        if len(seen) == 2:
            raise ZeroDivisionError
        stop.set()
        return 0

    run([Loop("dispatcher", turn, 0.0)], stop, tmp_path)

    assert len(seen) == 3
    assert (tmp_path / "dispatcher.alive").exists()


def test_a_loop_with_work_does_not_pause() -> None:
    stop = threading.Event()
    left = [1, 1, 1, 0]

    def turn() -> int:
        if len(left) == 1:
            stop.set()
        return left.pop(0)

    run([Loop("publisher", turn, 3600.0)], stop, None)

    assert left == []


def test_every_job_has_its_turn_before_the_first_trouble_is_told() -> None:
    seen: list[str] = []

    def step(job_id: str) -> None:
        seen.append(job_id)
        if job_id in {"a", "b"}:
            raise ValueError(job_id)

    with pytest.raises(ValueError, match="a"):
        one_by_one(["a", "b", "c"], step)

    assert seen == ["a", "b", "c"]


def test_a_loop_that_is_told_to_stop_begins_no_further_step() -> None:
    stop, seen = threading.Event(), list[str]()

    def step(job_id: str) -> None:
        seen.append(job_id)
        stop.set()

    def turn() -> int:
        one_by_one(["a", "b"], step)
        return 2

    run([Loop("publisher", turn, 0.0)], stop, None)

    assert seen == ["a"]


def test_when_a_part_of_the_farm_is_away_the_others_are_not_tried() -> None:
    seen: list[str] = []

    def step(job_id: str) -> None:
        seen.append(job_id)
        raise Unavailable("The bucket does not answer.", code="bucket_away")

    with pytest.raises(Unavailable):
        one_by_one(["a", "b"], step)

    assert seen == ["a"]
