"""Real models in other precisions: written by one stage, built by every backend, and judged."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.precision import Precision
from enginefarm.precision_report import PrecisionReport
from enginefarm.state import Stage
from localfarm.models import shipped
from tests.contract.backends.bench import Bench, Ran, found
from tests.contract.backends.real_inputs import samples

CALIBRATION, HELD_OUT = "sha256:" + "1" * 64, "sha256:" + "2" * 64
SHAPES = {
    "rapidocr-det": {"x": [1, 3, 320, 480]},
    "rapidocr-rec": {"x": [1, 3, 48, 320]},
    "magika": {"bytes": [1, 2048]},
    "minilm-l3": {"input_ids": [1, 64], "attention_mask": [1, 64]},
}
LEAST: dict[tuple[str, str], float] = {
    ("rapidocr-det", "fp16"): 0.999,
    ("rapidocr-rec", "fp16"): 0.999,
    ("magika", "fp16"): 0.999,
    ("minilm-l3", "fp16"): 0.999,
    ("rapidocr-det", "int8"): 0.9,
    ("rapidocr-rec", "int8"): 0.85,
    ("magika", "int8"): 0.95,
    ("minilm-l3", "int8"): 0.8,
}
"""Cosines that must be met. What int8 costs is for gates to judge; here it must be no nonsense."""

QUICK = {("magika", "fp16"), ("magika", "int8")}
"""What `make test` runs; the others take half a minute each and belong to `make soak`."""
SMALLER = {"fp16": 0.6, "int8": 0.8}
"""The share of the original's bytes; a table of words is looked up, and stays in fp32 in int8."""


def stored(folder: Path, role: str, arrays: dict[str, Any]) -> Path:
    path = folder / f"{role}.npz"
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    return path


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a bench for the stages that write models in other precisions."""
    runtime = next(row for row in found().backends if row.name == "onnxruntime")
    return Bench(runtime, "cpu", tmp_path_factory.mktemp("precision"))


def profiles(name: str) -> list[Any]:
    return [{row: dict.fromkeys(("min", "opt", "max"), it) for row, it in SHAPES[name].items()}]


def written(tool: Bench, folder: Path, name: str, kind: str) -> Ran:
    asked: dict[str, Any] = {"kind": kind, "calibration": CALIBRATION}
    precision = Precision.model_validate(asked)
    assert precision.stage is not None
    data = {
        "calibration": stored(folder, "calibration", samples(name, 100, 12)),
        "dataset": stored(folder, "dataset", samples(name, 0, 6)),
    }
    return tool.run(
        precision.stage,
        shipped(name).file(),
        profiles=profiles(name),
        datasets=data,
        precision=precision.recipe,
        tool_version=version("onnxruntime"),
        evaluation=HELD_OUT,
        synthetic={},
        seed=0,
    )


def model_of(ran: Ran) -> Path:
    assert ran.code is None, ran.log
    assert ran.result is not None
    return next(row.path for row in ran.result.outputs if row.role == "model")


CASES = [
    pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.soak], id="-".join(case))
    for case in LEAST
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_real_model_in_another_precision_is_near_itself_and_every_backend_builds_it(
    tool: Bench, tmp_path: Path, name: str, kind: str
) -> None:
    ran = written(tool, tmp_path, name, kind)
    path = model_of(ran)
    assert ran.result is not None
    told = PrecisionReport.model_validate(ran.result.facts["precision"])
    assert told.model_accuracy is not None
    assert not told.model_accuracy.synthetic
    cosines = [row.cosine for row in told.model_accuracy.outputs if row.dtype_engine == "float32"]
    assert min(row for row in cosines if row is not None) >= LEAST[name, kind]
    assert told.labels == []
    assert told.model_bytes < shipped(name).size * SMALLER[kind]
    for backend in found().backends:
        for arch in [arch for arch in ("cpu", "sm_86", "sm_89") if arch in backend.builds]:
            bench = Bench(backend, arch, tmp_path / f"{backend.name}-{arch}")
            for stage in (Stage.CHECK, Stage.COMPILE):
                built = bench.run(stage, path, profiles=profiles(name))
                assert built.code is None, f"{backend.name}@{arch} {stage}: {built.log[-2000:]}"
