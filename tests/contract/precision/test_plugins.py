"""A model whose operator is a plugin's gets another precision around it, or is refused in time."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import pytest

from enginefarm.errors import JobFailed
from enginefarm.precision import Precision
from enginefarm.precision_report import PrecisionReport
from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from tests.contract.backends import custom_operators as custom
from tests.contract.backends import made
from tests.unit.workers.precision.made import CALIBRATION, Silent
from workers import stages
from workers.backends import ort_session
from workers.childjob import ChildInput, ChildJob


@pytest.fixture(autouse=True)
def _process_of_its_own() -> Iterator[None]:
    """Leave no library behind, as a job's child does not."""
    yield
    ort_session.forget_libraries()


def job(folder: Path, kind: str, **asked: Any) -> ChildJob:  # noqa: ANN401 - any option
    (folder / "out").mkdir()
    path = made.save(folder / "model", custom.inverse())
    inputs = [ChildInput(role="model", name="model.onnx", path=path)]
    wanted = Precision.model_validate({"kind": kind} | asked)
    return ChildJob(
        stage=wanted.stage or Stage.CAST,
        target=Target.parse("onnxruntime@cpu"),
        recipe={
            "precision": wanted.recipe,
            "tool_version": version("onnxruntime"),
            "profiles": [],
            "synthetic": {},
            "seed": 0,
        },
        inputs=inputs,
        out=folder / "out",
        plugins={"onnxruntime": [custom.library()]},
    )


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("fp16", {}),
        ("int8", {"calibration": CALIBRATION}),
        ("int8", {"calibration": CALIBRATION, "method": "entropy"}),
    ],
    ids=str,
)
def test_what_lies_behind_the_operator_changes_and_the_operator_stays(
    tmp_path: Path, kind: str, asked: dict[str, str]
) -> None:
    result = stages.run(job(tmp_path, kind, **asked), Silent())
    told = PrecisionReport.model_validate(result.facts["precision"])
    assert told.changed > 0
    assert told.model_accuracy is not None
    cosine = told.model_accuracy.outputs[0].cosine
    assert cosine is not None
    assert cosine > 0.99
    written = onnx.load(str(result.outputs[0].path))
    (node,) = [row for row in written.graph.node if row.domain == custom.DOMAIN]
    assert node.op_type == "Inverse"
    assert any(row.op_type in {"Cast", "QuantizeLinear"} for row in written.graph.node)


def test_a_tool_with_an_environment_of_its_own_is_refused_before_it_is_asked(
    tmp_path: Path,
) -> None:
    asked = job(tmp_path, "fp8", calibration=CALIBRATION)
    with pytest.raises(JobFailed) as refused:
        stages.run(asked, Silent())
    assert (refused.value.code, refused.value.blame) == ("plugin_tool", Blame.PERSON)
    assert "modelopt" in refused.value.message
