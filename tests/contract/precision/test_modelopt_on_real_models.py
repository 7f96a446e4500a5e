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
WITHOUT = {"fp8": {"sm_86"}}
"""Architectures that lack a kind."""


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
    assert any(each.startswith("modelopt/") for each in _versions(ran.result.facts))
    for arch in ("sm_86", "sm_89"):
        _build(name, kind, path, arch, tmp_path)


def _versions(facts: dict[str, Any]) -> dict[str, str]:
    versions: dict[str, str] = facts["versions"]
    return versions


def _build(name: str, kind: str, path: Path, arch: str, folder: Path) -> None:
    """Check and compile, where the architecture has the kind; else see that the check says so."""
    compiler = next(row for row in found().backends if row.name == "tensorrt-rtx")
    bench = Bench(compiler, arch, folder / arch)
    checked = bench.run(Stage.CHECK, path, profiles=profiles(name))
    if arch in WITHOUT.get(kind, ()):
        assert checked.code == "precision_not_on_architecture", checked.log[-2000:]
        return
    assert checked.code is None, findings(checked)
    built = bench.run(Stage.COMPILE, path, profiles=profiles(name))
    assert built.code is None, f"{arch}: {built.log[-2000:]}"


def test_every_kind_is_tried() -> None:
    assert {kind for _, kind, _ in LEAST} == set(PrecisionKind) - {"as-is"}
