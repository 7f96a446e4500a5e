"""What stops an attempt before its end: a cancel, a lost lease, a clock, a shutdown."""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm.state import Stage
from tests.integration.workers.attempts import Backends, empty, recipe
from tests.integration.workers.served import Served, model_bytes
from workers import executor, handing, sandbox
from workers.executor import Workshop


def in_background(call: Callable[[], str]) -> tuple[threading.Thread, list[str]]:
    """Run an attempt beside the test: it is the test that plays the farm."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    return thread, answers


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what the attempt brings about."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


@pytest.fixture
def sleeping_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every job's child sleep, so that the test decides what happens meanwhile."""
    code = "import time; print('asleep', flush=True); time.sleep(60)"
    monkeypatch.setattr(sandbox, "child_command", lambda _scratch: [sys.executable, "-c", code])


def beats(served: Served, count: int) -> Callable[[], bool]:
    """Return whether so many lease beats have come."""
    return lambda: len(served.bodies("/jobs/job_1/beat")) >= count


@pytest.mark.usefixtures("sleeping_child")
def test_beats_carry_progress_and_log_while_the_child_works(
    served: Served, workshop: Workshop, backends: Backends
) -> None:
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    thread, answers = in_background(lambda: executor.attempt(workshop, "job_1", 1))
    wait_until(beats(served, 3))
    wait_until(lambda: any("asleep" in body["log_tail"] for body in served.bodies("/job_1/beat")))
    served.cancel = True
    thread.join(10)
    assert answers == ["cancelled"]
    said = [body["log_tail"] for body in served.bodies("/job_1/beat")]
    assert sum("asleep" in tail for tail in said) == 1


@pytest.mark.usefixtures("sleeping_child")
def test_a_cancel_ends_the_child_within_five_seconds_and_says_so(
    served: Served, workshop: Workshop, backends: Backends
) -> None:
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    thread, answers = in_background(lambda: executor.attempt(workshop, "job_1", 1))
    wait_until(beats(served, 1))
    asked = time.monotonic()
    served.cancel = True
    thread.join(10)
    assert answers == ["cancelled"]
    assert time.monotonic() - asked < 5
    assert served.finish["state"] == "cancelled"
    assert "stopped: cancelled" in served.log
    assert empty(workshop.scratch)


@pytest.mark.usefixtures("sleeping_child")
def test_a_lost_lease_ends_the_child_and_nothing_is_said(
    served: Served, workshop: Workshop, backends: Backends
) -> None:
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    thread, answers = in_background(lambda: executor.attempt(workshop, "job_1", 1))
    wait_until(beats(served, 1))
    served.lost = True
    thread.join(10)
    assert answers == ["abandoned: lease_lost"]
    assert served.bodies("/finish") == served.bodies("/uploads") == []
    assert empty(workshop.scratch)


@pytest.mark.usefixtures("sleeping_child")
def test_a_farm_that_is_away_for_a_lease_ends_the_work(
    served: Served, workshop: Workshop, backends: Backends
) -> None:
    served.lease_s = 1.0
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    thread, answers = in_background(lambda: executor.attempt(workshop, "job_1", 1))
    wait_until(beats(served, 2))
    served.away = True
    thread.join(15)
    assert answers == ["abandoned: lease_expired"]


def test_a_farm_that_is_away_for_less_than_a_lease_does_no_harm(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    served.lease_s = 30
    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends), [model])
    thread, answers = in_background(lambda: executor.attempt(workshop, "job_1", 1))
    wait_until(beats(served, 1))
    served.away = True
    wait_until(lambda: not thread.is_alive() or _scratch_has_engine(workshop.scratch))
    served.away = False
    thread.join(60)
    assert answers == ["succeeded"]


def _scratch_has_engine(scratch: Path) -> bool:
    return bool(list(scratch.glob("*/log.txt")))


@pytest.mark.usefixtures("sleeping_child")
@pytest.mark.parametrize(
    ("limits", "code"),
    [({"running_s": 0.5}, "running_limit"), ({"silent_s": 0.5}, "silent_limit")],
)
def test_the_clocks_of_the_assignment_hold(
    served: Served, workshop: Workshop, backends: Backends, limits: dict[str, float], code: str
) -> None:
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [], **limits)
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    assert served.finish["failure"]["code"] == code


@pytest.mark.usefixtures("sleeping_child")
def test_a_worker_that_is_shut_down_hands_the_job_back(
    served: Served, workshop: Workshop, backends: Backends
) -> None:
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    heard = iter([0] * 3)

    def stop_after_a_while(*_: object) -> int:
        try:
            return next(heard)
        except StopIteration:
            raise SystemExit from None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox.processes, "tree_memory", stop_after_a_while)  # type: ignore[attr-defined]  # the module's own
        with pytest.raises(SystemExit):
            executor.attempt(workshop, "job_1", 1)
    assert served.finish["state"] == "queued"
    assert served.finish["failure"]["code"] == "handed_back"
    assert empty(workshop.scratch)


def test_a_worker_that_is_shut_down_while_it_stores_hands_the_job_back(
    served: Served, workshop: Workshop, backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(executor, "store", told)
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    with pytest.raises(SystemExit):
        executor.attempt(workshop, "job_1", 1)
    assert served.finish["state"] == "queued"
    assert empty(workshop.scratch)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "scratch_full"), (errno.EIO, "stage_error")]
)
def test_a_disk_that_takes_no_more_ends_the_attempt_with_its_reason(
    served: Served,
    workshop: Workshop,
    backends: Backends,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: str,
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(handing, "write_document", full)
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == (code, "node")
    assert served.finish["log"] is None
