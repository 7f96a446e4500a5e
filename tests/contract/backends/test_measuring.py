"""What a benchmark measures, and what it refuses to make up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.report import AccuracyReport, LatencyReport
from enginefarm.state import Blame, Stage
from tests.contract.backends import made
from tests.contract.backends.bench import Bench
from workers.backends.base import Array
from workers.sandbox import Ending

QUICK = {"warmup_ms": 10, "max_duration_ms": 400, "min_duration_ms": 50, "min_iterations": 10}


def test_a_benchmark_measures_latency_and_accuracy(
    measuring: Bench, model: Path, engine: Path
) -> None:
    ran = measuring.run(Stage.BENCHMARK, model, engine=engine, options=QUICK, seed=3)
    assert ran.code is None, ran.log
    assert ran.result is not None
    facts: Any = ran.result.facts
    (latency,) = facts["latency"]
    assert latency["shapes"] == {"x": [4, 16]}
    assert latency["batch"] == 4
    assert latency["end_to_end_ms"]["count"] >= 10
    assert 0 < latency["end_to_end_ms"]["p50"] <= latency["end_to_end_ms"]["p99"]
    assert latency["peak_memory_bytes"] > 10 << 20
    accuracy = facts["accuracy"]
    assert accuracy["data"] == "synthetic, seed 3"
    assert accuracy["synthetic"] is True
    assert accuracy["samples"] == 16
    (output,) = accuracy["outputs"]
    assert output["cosine"] > 0.9999
    assert output["top1_agreement"] == 1.0


def test_an_engine_of_another_model_is_found_out(
    measuring: Bench, model: Path, tmp_path: Path
) -> None:
    other = measuring.run(Stage.COMPILE, made.save(tmp_path / "other", made.dense(seed=9)))
    assert other.result is not None
    wrong = other.result.outputs[0].path
    ran = measuring.run(Stage.BENCHMARK, model, engine=wrong, options=QUICK)
    assert ran.result is not None
    facts: Any = ran.result.facts
    assert facts["accuracy"]["outputs"][0]["cosine"] < 0.99


def test_inputs_that_the_model_itself_rejects_are_the_persons(
    measuring: Bench, tmp_path: Path
) -> None:
    path, profiles = (
        made.gather(tmp_path / "model"),
        [{"x": {"min": [1, 4], "opt": [2, 4], "max": [2, 4]}}],
    )
    built = measuring.run(Stage.COMPILE, path, profiles=profiles)
    assert built.result is not None
    engine = built.result.outputs[0].path
    fine = measuring.run(Stage.BENCHMARK, path, profiles=profiles, engine=engine, options=QUICK)
    assert fine.code is None, fine.log
    synthetic = {"x": {"low": 5, "high": 9}}
    ran = measuring.run(
        Stage.BENCHMARK,
        path,
        profiles=profiles,
        engine=engine,
        options=QUICK,
        synthetic=synthetic,
    )
    assert ran.code == "synthetic_inputs_rejected"
    assert ran.result is not None
    assert ran.result.failure is not None
    assert ran.result.failure.blame is Blame.PERSON
    assert "evaluation dataset" in ran.result.failure.fix


def test_a_benchmark_can_be_cancelled(measuring: Bench, model: Path, engine: Path) -> None:
    ran = measuring.run(
        Stage.BENCHMARK,
        model,
        engine=engine,
        options={"max_duration_ms": 60_000, "min_duration_ms": 60_000},
        stop=lambda progress: any(line["phase"] == "measuring" for line in progress),
    )
    assert ran.outcome.ending is Ending.STOPPED
    assert ran.code == "cancelled"
    assert ran.outcome.signal is None


def in_sizes(arrays: dict[str, Array], sizes: int) -> dict[str, Array]:
    """Return arrays as they are, or numbered, in two parts."""
    if sizes == 1:
        return arrays
    parts = (slice(0, 6), slice(6, None))
    return {
        f"{name}/{number}": array[part]
        for name, array in arrays.items()
        for number, part in enumerate(parts)
    }


@pytest.mark.parametrize("sizes", [1, 2])
def test_a_benchmark_judges_both_sides_by_labels_and_names_the_worst_samples(
    measuring: Bench, model: Path, engine: Path, tmp_path: Path, sizes: int
) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((11, 16)).astype("f4")
    numpy_answers = made.dense_answers(x).argmax(axis=-1)
    labels = numpy_answers.copy()
    labels[[2, 7]] += 1  # two labels are wrong: no side can be right about them
    dataset = tmp_path / "labelled.npz"
    np.savez(dataset, allow_pickle=False, **in_sizes({"x": x, "answers": labels}, sizes))

    ran = measuring.run(
        Stage.BENCHMARK,
        model,
        engine=engine,
        dataset=dataset,
        options=QUICK,
        evaluation_metric={"name": "accuracy", "output": "y", "labels": "answers"},
    )

    assert ran.code is None, ran.log
    assert ran.result is not None
    facts: Any = ran.result.facts
    accuracy = AccuracyReport.model_validate(facts["accuracy"])
    assert accuracy.samples == 11
    assert accuracy.metric is not None
    assert accuracy.metric.original == accuracy.metric.engine == pytest.approx(9 / 11)
    assert (accuracy.metric.loss, accuracy.metric.counted) == (0.0, 11)
    (output,) = accuracy.outputs
    assert all(row.sample < 11 for row in output.worst)
    latency = LatencyReport.model_validate(facts["latency"][0])
    assert latency.histogram is not None
    assert sum(latency.histogram.counts) == latency.end_to_end_ms.count
    assert 0 < len(latency.runs_ms) <= latency.end_to_end_ms.count


def test_labels_that_are_not_there_are_the_persons(
    measuring: Bench, model: Path, engine: Path, tmp_path: Path
) -> None:
    dataset = tmp_path / "unlabelled.npz"
    np.savez(dataset, x=np.zeros((8, 16), "f4"))
    ran = measuring.run(
        Stage.BENCHMARK,
        model,
        engine=engine,
        dataset=dataset,
        options=QUICK,
        evaluation_metric={"name": "accuracy", "output": "y", "labels": "answers"},
    )
    assert ran.code == "dataset_missing_labels"
