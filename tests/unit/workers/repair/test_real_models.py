"""Real models that a compiler refuses as they are: what repairs make of them computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from enginefarm.repair_report import Outcome
from enginefarm.repairs import passes_for
from localfarm.models import ShippedModel, shipped
from tests.unit.workers.repair.made import Array, ran, through
from workers.repair.deciding import count
from workers.repair.passes.restore_float import DYNAMIC

WANTED = {
    "rapidocr-cls": ["unique-dimensions"],
    "silero-if": ["fix-inputs", "pin-dimensions", "fold-constants"],
    "silero-op15": ["fix-inputs", "pin-dimensions", "fold-constants"],
    "light-squeezenet": ["weights-not-inputs"],
    "ddddocr-common-old": ["restore-float"],
}
EXACT = [name for name in WANTED if name != "ddddocr-common-old"]


def repaired(sample: ShippedModel, folder: Path) -> tuple[onnx.ModelProto, list[str]]:
    names = [row.name for row in passes_for("tensorrt-rtx", sample.repair)]
    found, reports = through(
        onnx.load(str(sample.file())),
        folder,
        *names,
        profile=sample.profile,
        fixed=sample.repair.fix_inputs,
        synthetic=sample.synthetic,
    )
    assert not [row for row in reports if row.outcome is Outcome.UNDONE]
    return found, [row.name for row in reports if row.outcome is Outcome.APPLIED]


def fresh(sample: ShippedModel, which: str) -> dict[str, Array]:
    """Return inputs that no proof was made on, with what is fixed among them."""
    rng = np.random.default_rng(4711)
    made = onnx.load(str(sample.file()), load_external_data=False)
    weights = {tensor.name for tensor in made.graph.initializer}
    feeds: dict[str, Array] = {}
    for row in made.graph.input:
        if row.name in weights:
            continue
        fixed = sample.repair.fix_inputs.get(row.name)
        shape = [dim.dim_value for dim in row.type.tensor_type.shape.dim]
        if sample.profile and row.name in sample.profile:
            shape = list(getattr(sample.profile[row.name], which))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(row.type.tensor_type.elem_type)
        values = rng.standard_normal(shape) if fixed is None else np.full(shape, fixed.value)
        feeds[row.name] = values.astype(dtype)
    return feeds


@pytest.mark.parametrize("which", ["min", "opt", "max"])
@pytest.mark.parametrize("name", EXACT)
def test_a_repaired_model_computes_what_the_original_does(
    name: str, which: str, tmp_path: Path
) -> None:
    sample = shipped(name)
    found, applied = repaired(sample, tmp_path)
    assert applied == WANTED[name]
    assert count(found.graph, "If") == 0
    onnx.checker.check_model(found, full_check=True)
    feeds = fresh(sample, which)
    for before, after in zip(ran(sample_model(sample), feeds), ran(found, feeds), strict=True):
        scale = np.max(np.abs(before))
        assert np.max(np.abs(before - after)) <= 1e-5 * scale


def test_a_model_in_dynamic_int8_computes_in_float_and_nearly_the_same(tmp_path: Path) -> None:
    sample = shipped("ddddocr-common-old")
    found, applied = repaired(sample, tmp_path)
    assert applied == WANTED[sample.name]
    assert not {node.op_type for node in found.graph.node} & DYNAMIC
    feeds = fresh(sample, "opt")
    before, after = ran(sample_model(sample), feeds)[0], ran(found, feeds)[0]
    assert 0 < np.max(np.abs(before - after)) < 0.1 * np.max(np.abs(before))


def sample_model(sample: ShippedModel) -> onnx.ModelProto:
    return onnx.load(str(sample.file()))


@pytest.mark.parametrize("name", ["rapidocr-det", "magika", "minilm-l3", "silero-ifless"])
def test_a_model_that_builds_as_it_is_stays_as_it_is(name: str, tmp_path: Path) -> None:
    sample = shipped(name)
    found, applied = repaired(sample, tmp_path)
    assert applied == []
    assert found.SerializeToString() == sample_model(sample).SerializeToString()
