"""One attempt from claim to finish, over real HTTP and with real children."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from enginefarm.state import Stage
from tasks.messages import BackendDescription
from tests.contract.backends import made
from tests.integration.workers.served import Served, model_bytes
from workers import executor, sandbox
from workers.executor import Workshop

Backends = dict[str, BackendDescription]
PROFILES = [{"x": {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}}]


def recipe(backends: Backends, name: str = "onnxruntime", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Return a recipe for a backend in the version that is here."""
    return {"backend_version": backends[name].version, "profiles": PROFILES, **more}


def empty(folder: Path) -> bool:
    """Tell whether nothing is left in a folder."""
    return not list(folder.iterdir())


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


@pytest.mark.parametrize("target", ["onnxruntime@cpu", "tensorrt-rtx@sm_86"])
def test_a_compile_job_ends_with_its_engine_stored(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path, target: str
) -> None:
    name = target.partition("@")[0]
    if name not in backends:
        pytest.skip(f"{name} does not load here")
    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    served.assign(Stage.COMPILE, target, recipe(backends, name), [model])
    assert executor.attempt(workshop, "job_1", 1) == "succeeded"
    end = served.finish
    assert (end["state"], end["failure"]) == ("succeeded", None)
    (engine,) = end["outputs"]
    assert engine["role"] == "engine"
    assert len(served.blobs[engine["digest"]]) == engine["size"]
    assert end["facts"]["compile"]["engine_bytes"] == engine["size"]
    assert end["machine"]["device"] == "cpu"
    assert end["log"]["role"] == "log"
    assert empty(workshop.scratch)


def test_check_compile_and_benchmark_follow_each_other(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((10, 16)).astype("f"))
    dataset = served.put((tmp_path / "d.npz").read_bytes(), "dataset", "dataset.npz")
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [model])
    assert executor.attempt(workshop, "job_1", 1) == "succeeded"
    assert served.finish["facts"] == {"findings": []}
    served.heard.clear()
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends), [model])
    executor.attempt(workshop, "job_1", 1)
    made_engine = served.blobs[served.finish["outputs"][0]["digest"]]
    engine = served.put(made_engine, "engine", "model.onnx")
    served.heard.clear()
    quick = {"max_duration_ms": 300, "min_duration_ms": 50, "warmup_ms": 10}
    benchmark = recipe(backends, options=quick, evaluation=dataset.digest)
    served.assign(Stage.BENCHMARK, "onnxruntime@cpu", benchmark, [model, engine, dataset])
    assert executor.attempt(workshop, "job_1", 1) == "succeeded", served.finish["failure"]
    accuracy = served.finish["facts"]["accuracy"]
    assert accuracy["data"] == f"dataset {dataset.digest}"
    assert (accuracy["synthetic"], accuracy["samples"]) == (False, 10)
    assert served.finish["machine"]["load_after"] is not None


def test_external_data_lies_beside_its_model(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    made.save(
        tmp_path / "apart",
        made.dense(),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    inputs = [
        served.put((tmp_path / "apart" / "model.onnx").read_bytes(), "model", "model.onnx"),
        served.put(
            (tmp_path / "apart" / "weights.bin").read_bytes(), "external-data", "weights.bin"
        ),
    ]
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends), inputs)
    assert executor.attempt(workshop, "job_1", 1) == "succeeded", served.finish["failure"]
    engine = onnx.load_from_string(served.blobs[served.finish["outputs"][0]["digest"]])
    assert all(not tensor.external_data for tensor in engine.graph.initializer)


def test_a_claim_that_is_declined_does_nothing(served: Served, workshop: Workshop) -> None:
    assert executor.attempt(workshop, "job_1", 1) == "declined: taken"
    assert [path for path, _ in served.heard] == ["/worker/v1/claims"]


def test_a_bad_model_fails_once_with_all_that_is_wrong_and_its_log(
    served: Served, workshop: Workshop, backends: Backends
) -> None:
    model = served.put(b"\x08\x07 no model", "model", "model.onnx")
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [model])
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("not_a_model", "person")
    assert served.finish["facts"]["findings"]
    assert "The model cannot be built" in served.log


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


def test_an_input_that_is_not_what_was_promised_is_the_farms_fault(
    served: Served, workshop: Workshop, backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor.transfer, "FIRST_DELAY_S", 0)  # type: ignore[attr-defined]  # the module's own
    model = served.put(b"promised", "model", "model.onnx")
    served.blobs[model.digest] = b"deliverd"
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [model])
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("input_unavailable", "farm")


def test_expired_upload_addresses_are_asked_for_again(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    served.expire_slots = 1
    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends), [model])
    assert executor.attempt(workshop, "job_1", 1) == "succeeded"
    assert len(served.bodies("/uploads")) == 2


def test_a_bucket_that_takes_nothing_is_the_farms_fault(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    served.refuse_puts = True
    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends), [model])
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    assert served.finish["failure"]["code"] == "output_refused"
    assert served.finish["failure"]["blame"] == "farm"
    assert served.finish["log"] is None


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


def test_a_child_that_crashes_leaves_a_failure_and_its_last_words(
    served: Served, workshop: Workshop, backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os; print('last words', flush=True); os.abort()"
    monkeypatch.setattr(sandbox, "child_command", lambda _scratch: [sys.executable, "-c", code])
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("child_crashed", "node")
    assert "SIGABRT" in failure["message"]
    assert "last words" in served.log


def test_the_log_is_kept_up_to_its_cap(
    served: Served, workshop: Workshop, backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "for n in range(20000): print('line', n)"
    monkeypatch.setattr(sandbox, "child_command", lambda _scratch: [sys.executable, "-c", code])
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    executor.attempt(replace(workshop, job_log_bytes=10_000), "job_1", 1)
    assert served.finish["failure"]["code"] == "child_failed"
    assert "line 0\n" in served.log
    assert "line 19999\n" in served.log
    assert "bytes of the log were cut here" in served.log
    assert len(served.log) < 11_000


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
