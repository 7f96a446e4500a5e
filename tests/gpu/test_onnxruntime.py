"""ONNX Runtime on a real GPU: what a node builds, measures and says when memory runs out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from enginefarm.state import Blame, Stage
from localfarm.models import shipped
from tests.contract.backends.bench import Bench, Ran

pytestmark = pytest.mark.gpu
GIB = 1 << 30
LARGE = {"x": {"min": [1, 3, 48, 32], "opt": [6, 3, 48, 320], "max": [8, 3, 48, 320]}}


def blame_of(ran: Ran) -> Blame | None:
    return ran.result.failure.blame if ran.result and ran.result.failure else None


@pytest.mark.parametrize("name", ["magika", "rapidocr-det", "rapidocr-rec", "silero-ifless"])
def test_a_real_model_is_built_and_measured_on_the_gpu(bench: Bench, name: str) -> None:
    sample = shipped(name)
    profiles = [{n: s.model_dump() for n, s in (sample.profile or {}).items()}]
    built = bench.run(Stage.COMPILE, sample.file(), profiles=profiles)
    assert built.result is not None, built.log
    engine = built.result.outputs[0].path

    synthetic = {n: s.model_dump(exclude_none=True) for n, s in sample.synthetic.items()}
    ran = bench.run(
        Stage.BENCHMARK,
        sample.file(),
        profiles=profiles,
        engine=engine,
        synthetic=synthetic,
        options={"max_duration_ms": 3000},
    )

    assert ran.code is None, ran.log
    assert ran.result is not None
    facts: Any = ran.result.facts
    latency = facts["latency"][0]["end_to_end_ms"]
    cosines = [row["cosine"] for row in facts["accuracy"]["outputs"]]
    sys.stdout.write(
        f"{name}: P50 {latency['p50']:.2f} ms, P99 {latency['p99']:.2f} ms, cosine {cosines}\n"
    )
    assert all(cosine > 0.999 for cosine in cosines)


def test_a_full_gpu_is_out_of_memory_and_no_fault_of_the_model(
    bench: Bench, crowd: Callable[[int], None]
) -> None:
    crowd(GIB // 5)

    ran = bench.run(Stage.CHECK, shipped("rapidocr-rec").file(), profiles=[LARGE])

    sys.stdout.write(f"{ran.result.failure if ran.result else ran.log}\n")
    assert (ran.code, blame_of(ran)) == ("out_of_memory", Blame.NODE)


def test_memory_that_runs_out_while_an_engine_is_measured_is_no_fault_of_the_engine(
    bench: Bench, crowd: Callable[[int], None]
) -> None:
    model = shipped("rapidocr-rec").file()
    built = bench.run(Stage.COMPILE, model, profiles=[LARGE])
    assert built.result is not None, built.log
    crowd(GIB * 7 // 10)

    engine = built.result.outputs[0].path
    ran = bench.run(Stage.BENCHMARK, model, profiles=[LARGE], engine=engine, options={})

    sys.stdout.write(f"{ran.result.failure if ran.result else ran.log}\n")
    assert (ran.code, blame_of(ran)) == ("out_of_memory", Blame.NODE)
