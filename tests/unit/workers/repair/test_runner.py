"""What a pass changes is proven, or undone; nothing that goes wrong in one stops the build."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.errors import JobFailed
from enginefarm.repair_report import Outcome, PassReport
from enginefarm.repairs import REPAIRS, Exactness, PassId, Repair, passes_for
from enginefarm.spec import RepairOptions
from enginefarm.state import Blame
from tests.unit.workers.repair.made import Quiet, model, value, weight
from workers.repair.base import Ground, NotApplied, Pass
from workers.repair.registry import PASSES
from workers.repair.runner import Repaired, repair, require_passes

EXACT = Repair("test-pass", 1, Exactness.EXACT, "A pass of a test.")
STRUCTURAL = Repair("test-pass", 1, Exactness.STRUCTURAL, "A pass of a test.")
MEASURED = Repair("test-pass", 1, Exactness.MEASURED, "A pass of a test.")


def scaled(by: float = 2.0) -> onnx.ModelProto:
    return model(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        [value("x", 2, 4)],
        [value("y", 2, 4)],
        [weight("k", np.float32(by))],
    )


def tried(
    run: Pass,
    row: Repair,
    made: onnx.ModelProto,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Repaired, PassReport]:
    from enginefarm.views import TensorView

    monkeypatch.setitem(PASSES, row.name, run)
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    inputs = [TensorView(name="x", dtype="float32", shape=[2, 4])]
    ground = Ground("onnxruntime", folder, declared=inputs, inputs=inputs)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    state = repair(Repaired(onnx.load(str(path)), path), [row], ground, work, Quiet())
    return state, state.reports[0]


def _multiply(by: float) -> Pass:
    def run(made: onnx.ModelProto, _ground: Ground) -> str:
        factor = onnx.numpy_helper.to_array(made.graph.initializer[0]) * np.float32(by)
        made.graph.initializer[0].CopyFrom(weight("k", factor.astype(np.float32)))
        return f"multiplied by {by}"

    return run


def test_a_pass_that_changes_results_is_undone_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scaled()
    state, report = tried(_multiply(1.001), EXACT, made, tmp_path, monkeypatch)
    assert report.outcome is Outcome.UNDONE
    assert report.proof is not None
    assert report.proof.max_rel_error == pytest.approx(1e-3, rel=0.1)
    assert state.model.SerializeToString() == made.SerializeToString()
    assert state.path == tmp_path / "model.onnx"


@pytest.mark.parametrize(("by", "kept"), [(1 + 2e-6, True), (1 + 2e-5, False)])
def test_the_bound_of_a_proof_is_one_in_a_hundred_thousand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: float, *, kept: bool
) -> None:
    _, report = tried(_multiply(by), EXACT, scaled(), tmp_path, monkeypatch)
    assert (report.outcome is Outcome.APPLIED) is kept


def test_a_measured_pass_is_kept_with_its_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, report = tried(_multiply(1.1), MEASURED, scaled(), tmp_path, monkeypatch)
    assert report.outcome is Outcome.APPLIED
    assert report.proof is not None
    assert report.proof.max_rel_error == pytest.approx(0.1)


def test_a_measured_pass_that_changes_what_is_meant_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, report = tried(_multiply(1.25), MEASURED, scaled(), tmp_path, monkeypatch)
    assert report.outcome is Outcome.UNDONE
    assert "0.2 is the most" in report.why
    assert report.proof is not None
    assert state.path == tmp_path / "model.onnx"


def _beside_a_mask(by: float) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["z"]),
        helper.make_node("Concat", ["z", "mask"], ["y"], axis=0),
    ]
    mask = weight("mask", np.full((1, 4), -3.4e38, np.float32))
    weights = [weight("k", np.float32(by)), mask]
    return model(nodes, [value("x", 2, 4)], [value("y", 3, 4)], weights)


def test_a_mask_value_does_not_hide_a_changed_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, report = tried(_multiply(1.5), EXACT, _beside_a_mask(2.0), tmp_path, monkeypatch)
    assert report.outcome is Outcome.UNDONE
    assert "8 of 12 elements of output y" in report.why


def _break(made: onnx.ModelProto, _ground: Ground) -> str:
    made.graph.node[0].input[0] = "nowhere"
    return "broken"


def _rename_output(made: onnx.ModelProto, _ground: Ground) -> str:
    made.graph.node[0].output[0] = made.graph.output[0].name = "other"
    return "renamed"


def _to_double(made: onnx.ModelProto, _ground: Ground) -> str:
    made.graph.node[0].output[0] = "f"
    made.graph.node.append(helper.make_node("Cast", ["f"], ["y"], to=onnx.TensorProto.DOUBLE))
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return "doubled"


@pytest.mark.parametrize("run", [_break, _rename_output, _to_double])
@pytest.mark.parametrize("row", [EXACT, STRUCTURAL, MEASURED], ids=lambda row: row.exactness)
def test_a_model_that_no_longer_runs_or_has_other_outputs_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Repair, run: Pass
) -> None:
    state, report = tried(run, row, scaled(), tmp_path, monkeypatch)
    assert report.outcome is not Outcome.APPLIED
    assert "undone" in report.why
    assert state.path == tmp_path / "model.onnx"


def test_a_pass_that_breaks_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(made: onnx.ModelProto, _ground: Ground) -> str:
        del made.graph.node[:]
        message = "no such thing"
        raise KeyError(message)

    state, report = tried(run, EXACT, scaled(), tmp_path, monkeypatch)
    assert report.outcome is Outcome.NOT_APPLIED
    assert "KeyError" in report.why
    assert len(state.model.graph.node) == 1


def test_a_pass_may_say_why_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_made: onnx.ModelProto, _ground: Ground) -> str:
        message = "the moon is full"
        raise NotApplied(message)

    _, report = tried(run, EXACT, scaled(), tmp_path, monkeypatch)
    assert (report.outcome, report.why) == (Outcome.NOT_APPLIED, "the moon is full")


def unrunnable() -> onnx.ModelProto:
    node = helper.make_node("Marvel", ["x"], ["m"], domain="of.others")
    relu = helper.make_node("Relu", ["m"], ["y"])
    return model(
        [node, relu],
        [value("x", 2, 4)],
        [value("y", 2, 4)],
        [weight("k", np.float32(1))],
        domains=["of.others"],
    )


def _rename_graph(made: onnx.ModelProto, _ground: Ground) -> str:
    made.graph.name = "other"
    return "renamed the graph"


@pytest.mark.parametrize(
    ("row", "outcome", "said"),
    [
        (STRUCTURAL, Outcome.APPLIED, "not proven, it changes no computation"),
        (EXACT, Outcome.NOT_APPLIED, "cannot be proven"),
        (MEASURED, Outcome.NOT_APPLIED, "cannot be proven"),
    ],
)
def test_what_cannot_be_run_is_rewritten_only_where_nothing_is_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Repair, outcome: Outcome, said: str
) -> None:
    _, report = tried(_rename_graph, row, unrunnable(), tmp_path, monkeypatch)
    assert report.outcome is outcome
    assert said in report.why
    assert report.proof is None


def gives_a_sequence() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["z"]),
        helper.make_node("SequenceConstruct", ["z"], ["y"]),
    ]
    output = helper.make_tensor_sequence_value_info("y", onnx.TensorProto.FLOAT, None)
    return model(nodes, [value("x", 2, 4)], [output], [weight("k", np.float32(2))])


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        (STRUCTURAL, Outcome.APPLIED),
        (EXACT, Outcome.NOT_APPLIED),
        (MEASURED, Outcome.NOT_APPLIED),
    ],
)
def test_outputs_that_cannot_be_compared_prove_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Repair, outcome: Outcome
) -> None:
    _, report = tried(_rename_graph, row, gives_a_sequence(), tmp_path, monkeypatch)
    assert report.outcome is outcome
    assert "none of the model's outputs can be compared" in report.why
    assert report.proof is None


def test_a_comparison_that_breaks_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(*_: object) -> None:
        message = "no such comparison"
        raise TypeError(message)

    monkeypatch.setattr("workers.repair.prover.Prover.compare", compare)
    state, report = tried(_rename_graph, STRUCTURAL, scaled(), tmp_path, monkeypatch)
    assert report.outcome is Outcome.NOT_APPLIED
    assert "no such comparison" in report.why
    assert state.path == tmp_path / "model.onnx"


def test_a_node_with_other_passes_gives_the_job_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in (PassId(name="sort-nodes", version=99), PassId(name="walk-the-dog", version=1)):
        with pytest.raises(JobFailed) as failed:
            require_passes([row])
        assert (failed.value.code, failed.value.blame) == ("passes_differ", Blame.NODE)


def test_the_farm_names_exactly_the_passes_that_a_node_has() -> None:
    assert {row.name for row in REPAIRS} == set(PASSES)
    assert len({row.name for row in REPAIRS}) == len(REPAIRS)
    everything = RepairOptions.model_validate(
        {
            "fix_inputs": {"x": {"value": 1}},
            "allow": ["restore-float"],
            "prune_unused": True,
            "narrow_int64": True,
        }
    )
    assert [row.name for row in passes_for("tensorrt-rtx", everything)] == [
        row.name for row in REPAIRS
    ]
    assert require_passes(passes_for("tensorrt-rtx", everything)) == list(REPAIRS)


def test_what_is_not_asked_for_is_not_tried() -> None:
    asked = {row.name for row in REPAIRS if row.asked}
    assert asked == {"fix-inputs", "narrow-int64", "restore-float", "prune-unused"}
    assert not asked & {row.name for row in passes_for("tensorrt-rtx", RepairOptions())}
