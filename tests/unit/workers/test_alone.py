"""What an engine was found to be by itself outlives the end that its twin brings about."""

from __future__ import annotations

from pathlib import Path

from enginefarm.errors import Failure
from enginefarm.state import Blame
from tasks.messages import SCRATCH_FULL
from workers.alone import ALONE_FILE, measured
from workers.childjob import ChildResult, write_document

CRASHED = Failure(code="child_crashed", blame=Blame.NODE, message="It died of SIGSEGV.")


def test_without_a_first_part_the_end_is_the_jobs(tmp_path: Path) -> None:
    assert measured(tmp_path, CRASHED) == ChildResult(failure=CRASHED)


def test_with_one_the_job_has_succeeded_and_says_what_ended_it(tmp_path: Path) -> None:
    kept = ChildResult(facts={"latency": [], "accuracy": None}, device_uuid="GPU-1")
    write_document(tmp_path / ALONE_FILE, kept)
    found = measured(tmp_path, CRASHED)
    assert (found.failure, found.device_uuid) == (None, "GPU-1")
    reason = str(found.facts.pop("comparison_reason"))
    assert "its twin" in reason
    assert "It died of SIGSEGV. [child_crashed]" in reason
    assert found.facts == kept.facts


def test_a_node_without_room_for_the_result_tries_again(tmp_path: Path) -> None:
    write_document(tmp_path / ALONE_FILE, ChildResult())
    full = CRASHED.model_copy(update={"code": SCRATCH_FULL})
    assert measured(tmp_path, full).failure == full
