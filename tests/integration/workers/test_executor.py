"""One attempt from claim to finish, over real HTTP and with real children."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from enginefarm.state import Stage
from tests.contract.backends import made
from tests.integration.workers.attempts import Backends, empty, recipe
from tests.integration.workers.served import Served, model_bytes
from workers import executor, farm_api, sandbox
from workers.executor import Workshop


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
    assert end["peak_memory_bytes"] >= end["facts"]["compile"]["peak_memory_bytes"]
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


def test_a_farm_without_its_bucket_is_told_the_end_all_the_same(
    served: Served, workshop: Workshop, backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farm_api, "BUCKET_PATIENCE_S", 0)
    served.bucketless = True
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends), [])
    assert executor.attempt(workshop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("bucket_away", "farm")


def test_a_log_that_the_farm_cannot_look_at_does_not_hold_up_the_end(
    served: Served,
    workshop: Workshop,
    backends: Backends,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(farm_api, "BUCKET_PATIENCE_S", 0)
    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends), [model])
    monkeypatch.setattr(executor, "reach", lambda step: _lose_bucket(served, step))
    assert executor.attempt(workshop, "job_1", 1) == "succeeded"
    first, second = served.bodies("/finish")
    assert first["log"] is not None
    assert (second["log"], second["outputs"]) == (None, first["outputs"])


def _lose_bucket(served: Served, step: str) -> None:
    served.bucketless = served.bucketless or step == "node.stored"


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


def test_a_twin_that_takes_the_process_down_costs_the_engine_nothing(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    data = model_bytes(tmp_path)
    inputs = [served.put(data, role, f"{role}.onnx") for role in ("model", "engine")]
    twin = made.save(tmp_path / "hungry", made.hungry(3 << 30))
    inputs.append(served.put(twin.read_bytes(), "twin", "twin.onnx"))
    quick = {"max_duration_ms": 300, "min_duration_ms": 50, "warmup_ms": 10}
    asked = recipe(backends, options=quick)
    served.assign(Stage.BENCHMARK, "onnxruntime@cpu", asked, inputs, memory_bytes=1 << 30)
    assert executor.attempt(workshop, "job_1", 1) == "succeeded", served.finish["failure"]
    facts = served.finish["facts"]
    assert facts["latency"]
    assert facts["accuracy"]["outputs"]
    assert facts["versions"]["onnxruntime"]
    assert "comparison" not in facts
    assert "[memory_limit]" in facts["comparison_reason"]
    assert "The job used" in served.log
