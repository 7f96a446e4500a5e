"""Operators of a model's own beside CUDA's, by a real library of ONNX Runtime's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.state import Blame, Stage
from tests.contract.backends import custom_operators as custom
from tests.contract.backends import made
from tests.contract.backends.bench import Bench
from tests.gpu.evidence import Evidence

pytestmark = pytest.mark.gpu
NAMED = {"onnxruntime": [digest_of(b"the child is handed the file")]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model that inverts a matrix by the library's operator, and multiplies on the GPU."""
    return made.save(tmp_path / "model", custom.inverse())


def test_a_model_with_operators_of_its_own_is_built_and_measured_on_the_gpu(
    bench: Bench, model: Path, evidence: Evidence
) -> None:
    equipped = replace(bench, plugins={"onnxruntime": [custom.library()]})
    checked = equipped.run(Stage.CHECK, model, profiles=[], plugins=NAMED)
    assert checked.code is None, checked.log
    built = equipped.run(Stage.COMPILE, model, profiles=[], plugins=NAMED)
    assert built.result is not None, built.log
    engine = built.result.outputs[0].path
    ran = equipped.run(
        Stage.BENCHMARK,
        model,
        profiles=[],
        engine=engine,
        synthetic={"x": {"low": 1.0, "high": 2.0}},
        options={"max_duration_ms": 1500},
        plugins=NAMED,
    )
    assert ran.code is None, ran.log
    assert ran.result is not None
    facts: Any = ran.result.facts
    (row,) = facts["latency"]
    (output,) = facts["accuracy"]["outputs"]
    evidence.row(
        "Operators of the model's own, beside CUDA's",
        operator="ai.onnx.contrib::Inverse",
        p50_ms=row["end_to_end_ms"]["p50"],
        cosine=output["cosine"],
    )
    assert output["cosine"] > 0.999
    assert row["end_to_end_ms"]["p50"] > 0


def test_without_the_library_the_model_is_refused_there_too(bench: Bench, model: Path) -> None:
    ran = bench.run(Stage.COMPILE, model, profiles=[])
    assert ran.result is not None, ran.log
    assert ran.result.failure is not None
    assert (ran.code, ran.result.failure.blame) == ("unsupported_operator", Blame.PERSON)
