"""ModelOpt on real models: what it writes is near the model, and TensorRT-RTX builds it.

The numbers that were seen stand in docs/evidence/modelopt.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginefarm.precision import Precision, PrecisionKind
from enginefarm.precision_report import PrecisionReport
from enginefarm.state import Stage
from localfarm.models import shipped
from tests.contract.backends.bench import Bench, findings, found
from tests.contract.backends.real_inputs import samples
from tests.contract.backends.test_precisions import (
    CALIBRATION,
    HELD_OUT,
    model_of,
    profiles,
    stored,
)
from tests.contract.precision.environment import modelopt_python
from workers.tool_script import ask_versions, version_of

pytestmark = pytest.mark.soak
LEAST: dict[tuple[str, str, str], float] = {
    ("magika", "int8", "entropy"): 0.95,
    ("minilm-l3", "int8", "minmax"): 0.85,
    ("rapidocr-rec", "int8", "minmax"): 0.95,
    ("rapidocr-det", "int8", "minmax"): 0.9,
    ("minilm-l3", "fp8", "minmax"): 0.99,
    ("rapidocr-rec", "fp8", "minmax"): 0.93,
    ("minilm-l3", "int4", "rtn"): 0.93,
    ("minilm-l3", "int4", "awq-lite"): 0.93,
    ("minilm-l3", "fp16", ""): 0.999,
    ("minilm-l3", "bf16", ""): 0.999,
}
"""Cosines that must be met. What a precision costs is for gates to judge."""
REFUSED = {("fp8", "sm_86")}
"""What the check of the file refuses."""
NOT_ASKED = {("fp8", "cpu"), ("bf16", "cpu")}
"""What is refused before a model is written."""


@pytest.mark.parametrize(("name", "kind", "method"), LEAST, ids=lambda each: each or "own")
def test_what_modelopt_makes_of_a_real_model_is_near_it_and_is_built(
    tmp_path: Path, name: str, kind: str, method: str
) -> None:
    python = modelopt_python()
    asked = {"kind": kind, "tool": "modelopt", "calibration": CALIBRATION}
    precision = Precision.model_validate(asked | ({"method": method} if method else {}))
    assert precision.stage is not None
    runtime = next(row for row in found().backends if row.name == "onnxruntime")
    ran = Bench(runtime, "cpu", tmp_path / "tool", pythons={"modelopt": python}).run(
        precision.stage,
        shipped(name).file(),
        profiles=profiles(name),
        datasets={
            "calibration": stored(tmp_path, "calibration", samples(name, 100, 12)),
            "dataset": stored(tmp_path, "dataset", samples(name, 0, 6)),
        },
        precision=precision.recipe,
        tool_version=version_of(ask_versions(python)),
        evaluation=HELD_OUT,
        synthetic={},
        seed=0,
    )
    path = model_of(ran)
    assert ran.result is not None
    told = PrecisionReport.model_validate(ran.result.facts["precision"])
    assert told.model_accuracy is not None
    cosines = [row.cosine for row in told.model_accuracy.outputs if row.dtype_engine == "float32"]
    assert min(row for row in cosines if row is not None) >= LEAST[name, kind, method]
    versions: Any = ran.result.facts["versions"]
    assert any(each.startswith("modelopt/") for each in versions)
    for backend in found().backends:
        for arch in ("cpu", "sm_86", "sm_89"):
            if arch in backend.builds and (kind, arch) not in NOT_ASKED:
                bench = Bench(backend, arch, tmp_path / f"{backend.name}-{arch}")
                _build(bench, path, profiles(name), refused=(kind, arch) in REFUSED)


def _build(bench: Bench, path: Path, shapes: list[Any], *, refused: bool) -> None:
    """Check and compile, where the architecture has the kind; else see that the check says so."""
    checked = bench.run(Stage.CHECK, path, profiles=shapes)
    if refused:
        assert checked.code == "precision_not_on_architecture", checked.log[-2000:]
        return
    assert checked.code is None, findings(checked)
    built = bench.run(Stage.COMPILE, path, profiles=shapes)
    assert built.code is None, f"{bench.arch}: {built.log[-2000:]}"


def test_every_kind_is_tried() -> None:
    assert {kind for _, kind, _ in LEAST} == set(PrecisionKind) - {"as-is"}
