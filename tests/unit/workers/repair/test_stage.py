"""The stage hands on a model or nothing, and says what became of every pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.errors import InvalidRequest, JobFailed
from enginefarm.model_file import scan_model
from enginefarm.repair_report import RepairReport
from enginefarm.repairs import passes_for
from enginefarm.spec import RepairOptions
from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from tests.unit.workers.repair.made import Quiet, model, ran, value, weight
from tests.unit.workers.repair.test_folding import rate_chooses
from workers.childjob import ChildInput, ChildJob, ChildResult
from workers.repair.stage import repair_model

RTX = Target.parse("tensorrt-rtx@sm_86")


def staged(folder: Path, *files: tuple[str, str, Path], **asked: Any) -> ChildResult:  # noqa: ANN401 - options
    options = RepairOptions.model_validate(asked)
    recipe: dict[str, Any] = {
        "backend": "tensorrt-rtx",
        "passes": [row.model_dump() for row in passes_for("tensorrt-rtx", options)],
        "asked": options.model_dump(mode="json", exclude={"mode"}),
        "profiles": [],
        "synthetic": {},
    }
    out = folder / "out"
    out.mkdir()
    inputs = [ChildInput(role=role, name=name, path=path) for role, name, path in files]
    job = ChildJob(stage=Stage.REPAIR, target=RTX, recipe=recipe, inputs=inputs, out=out)
    return repair_model(job, Quiet())


def saved(folder: Path, made: onnx.ModelProto) -> tuple[str, str, Path]:
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    return "model", "model.onnx", path


def report(result: ChildResult) -> RepairReport:
    return RepairReport.model_validate(result.facts["repair"])


def test_a_model_that_was_mended_is_handed_on_with_its_interface_and_a_report(
    tmp_path: Path,
) -> None:
    made = rate_chooses()
    result = staged(tmp_path, saved(tmp_path, made), fix_inputs={"sr": {"value": 16000}})

    assert [(row.role, row.name) for row in result.outputs] == [
        ("model", "model.onnx"),
        ("repair", "repair.json"),
    ]
    found = onnx.load(str(result.outputs[0].path))
    x = np.ones((2, 4), np.float32)
    assert np.array_equal(
        ran(found, {"x": x})[0], ran(made, {"x": x, "sr": np.array(16000, np.int64)})[0]
    )
    interface: Any = result.facts["interface"]
    assert [row["name"] for row in interface["inputs"]] == ["x"]
    told = report(result)
    assert told.changed
    assert [row.name for row in told.applied] == ["fix-inputs", "fold-constants"]
    assert (told.nodes_before, told.nodes_after) == (6, 3)
    assert json.loads(result.outputs[1].path.read_text()) == result.facts["repair"]


def test_the_same_work_gives_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        file = saved(folder, rate_chooses())
        result = staged(folder, file, fix_inputs={"sr": {"value": 16000}})
        written.append(result.outputs[0].path.read_bytes())
    assert written[0] == written[1]


def test_where_nothing_is_to_mend_no_model_is_handed_on(tmp_path: Path) -> None:
    relu = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", 1)], [value("y", 1)])
    result = staged(tmp_path, saved(tmp_path, relu))
    assert [row.role for row in result.outputs] == ["repair"]
    assert not report(result).changed
    assert "interface" not in result.facts


@pytest.mark.parametrize("what", ["no model", "two tensors of one name"])
def test_what_is_no_sound_model_goes_on_to_the_check_untouched(tmp_path: Path, what: str) -> None:
    nodes = [helper.make_node(kind, ["x"], ["y"]) for kind in ("Relu", "Neg")]
    file = saved(tmp_path, model(nodes, [value("x", 1)], [value("y", 1)]))
    if what == "no model":
        file[2].write_bytes(b"\x08\x07 this is no model at all")
    result = staged(tmp_path, file)
    assert result.failure is None
    assert [row.role for row in result.outputs] == ["repair"]


def test_an_input_that_is_not_there_cannot_be_fixed_and_the_nearest_is_named(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        staged(tmp_path, saved(tmp_path, rate_chooses()), fix_inputs={"srr": {"value": 1}})
    assert (refused.value.code, refused.value.blame) == ("unknown_input", Blame.PERSON)
    assert "'sr'" in refused.value.fix


def test_weights_outside_of_the_file_stay_there(tmp_path: Path) -> None:
    made = rate_chooses()
    big = np.arange(4096, dtype=np.float32)
    made.graph.initializer.append(weight("big", big))
    made.graph.node.append(helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0))
    made.graph.node.append(helper.make_node("Add", ["y", "sum"], ["z"]))
    made.graph.output.append(value("z", 2, 4))
    path = tmp_path / "model.onnx"
    onnx.save_model(
        made, str(path), save_as_external_data=True, location="weights.bin", size_threshold=1024
    )
    data = ("external-data", "weights.bin", tmp_path / "weights.bin")
    before = (tmp_path / "weights.bin").read_bytes()
    result = staged(
        tmp_path, ("model", "model.onnx", path), data, fix_inputs={"sr": {"value": 16000}}
    )
    roles = {row.role: row for row in result.outputs}
    assert {"model", "external-data", "repair"} == set(roles)
    assert roles["external-data"].path.read_bytes() == before
    scan = scan_model(roles["model"].path)
    assert {row.location for row in scan.external} == {"weights.bin"}
    assert [row.name for row in report(result).applied] == ["fix-inputs", "fold-constants"]


def test_restoring_float_is_done_only_where_it_is_allowed(tmp_path: Path) -> None:
    from tests.unit.workers.repair.test_restore_float import dense

    for name, allow in (("no", []), ("yes", ["restore-float"])):
        folder = tmp_path / name
        folder.mkdir()
        result = staged(folder, saved(folder, dense()), allow=allow)
        assert report(result).changed is bool(allow)


def test_a_fix_that_was_asked_for_and_cannot_be_proven_fails_the_job_and_says_why(
    tmp_path: Path,
) -> None:
    made = rate_chooses()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"

    with pytest.raises(JobFailed) as refused:
        staged(tmp_path, saved(tmp_path, made), fix_inputs={"sr": {"value": 16000}})

    assert (refused.value.code, refused.value.blame) == ("fix_not_applied", Blame.PERSON)
    assert "proven" in refused.value.why
