"""A precision is asked for in a line, and people are told what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.builds import _asked
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.layer_lines import costliest
from enginefarm.finding import warning_finding
from enginefarm.precision_report import PrecisionReport
from enginefarm.sensitivity_report import SensitivityReport
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, BuildState
from enginefarm.views import ArtifactView
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, MODEL, artifact, build, published
from tests.unit.client.test_cli_submit import _submitting

DATA = f"sha256:{'7' * 64}"
INT8 = ["submit", MODEL, "-t", "onnxruntime@cpu", "--precision", "int8", "--calibration"]


def test_the_kind_its_data_and_finer_options_are_asked_for(farm_env: LoopbackFarm) -> None:
    bodies = _submitting(farm_env)
    finer = [
        *("--option", "precision.method=percentile", "--option", "precision.percentile=99.9"),
        *("--option", "precision.op_types=Conv,MatMul", "--option", "precision.exclude=head*"),
        *("--option", "precision.per_channel=false", "--option", "compile.workspace_mib=64"),
    ]
    assert invoke([*INT8, DATA, *finer]) == ExitCode.OK
    asked = bodies[0]["precision"]
    assert (asked["kind"], asked["calibration"]) == ("int8", DATA)
    assert (asked["method"], asked["percentile"], asked["per_channel"]) == (
        "percentile",
        99.9,
        False,
    )
    assert (asked["op_types"], asked["exclude"]) == (["Conv", "MatMul"], ["head*"])
    assert bodies[0]["options"]["compile"]["workspace_mib"] == 64


def test_a_calibration_file_is_sent_as_a_dataset(farm_env: LoopbackFarm, tmp_path: Path) -> None:
    bodies = _submitting(farm_env)
    view = {
        "digest": DATA,
        "name": "samples",
        "size": 9,
        "samples": 2,
        "arrays": [],
        "created_at": "2026-01-01T00:00:00Z",
    }
    farm_env.routes["/v1/datasets"] = lambda handler: handler.reply(201, json.dumps(view).encode())
    np.savez(tmp_path / "samples.npz", x=np.zeros((2, 4), np.float32))
    assert invoke([*INT8, str(tmp_path / "samples.npz")]) == ExitCode.OK
    assert bodies[0]["precision"]["calibration"] == DATA


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--precision", "int7"], "int8"),
        (["--option", "precision.methd=minmax"], "method"),
        (["--option", "precision.method=maxmin"], "minmax"),
        (["--calibration", "nothing-here.npz"], "nothing-here.npz"),
    ],
)
def test_what_is_misspelt_is_told_before_anything_is_sent(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], line: list[str], said: str
) -> None:
    bodies = _submitting(farm_env)
    assert invoke(["submit", MODEL, "-t", "onnxruntime@cpu", *line]) in {
        ExitCode.USAGE,
        ExitCode.BAD_INPUT,
    }
    assert said in capsys.readouterr().err
    assert bodies == []


def test_a_build_shows_the_precision_as_it_is_written() -> None:
    asked: dict[str, Any] = {"kind": "int8", "calibration": DATA, "exclude": ["a*", "b"]}
    spec = BuildSpec.model_validate(
        {"model": MODEL, "targets": ["onnxruntime@cpu"], "precision": asked}
    )
    view = build(BuildState.RUNNING, [], [published()])
    lines = list(_asked(view.model_copy(update={"spec": spec})))
    wanted = f"--precision int8 --calibration {DATA} --option precision.exclude=a*,b"
    assert f"precision {wanted}" in lines
    assert not any(line.startswith("precision") for line in _asked(view))


def reported(**more: object) -> ArtifactView:
    view = artifact()
    assert view.report is not None
    recipe = {"kind": "int8", "tool": "onnxruntime", "tool_version": "1.32.0"}
    told = PrecisionReport.model_validate(
        {
            "recipe": recipe | {"method": "percentile", "percentile": 99.99, "calibration": DATA},
            "nodes": 9,
            "changed": 3,
            "kept": [{"node": "head", "operator": "MatMul", "why": "excluded by the build"}],
            "kept_count": 7,
            "data": {"samples": 32, "duplicates": 0, "sizes": 1, "inputs": []},
            "findings": [warning_finding("calibration_few_samples", "There are 32 samples.")],
            "labels": ["synthetic_calibration"],
            "model_accuracy_reason": "no output is a tensor of numbers",
            "model_bytes": 2_000_000,
            "seconds": 1.5,
        }
        | more
    )
    return view.model_copy(update={"report": view.report.model_copy(update={"precision": told})})


def shown(view: ArtifactView, farm: LoopbackFarm, capsys: pytest.CaptureFixture[str]) -> str:
    farm.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(
        200, view.model_dump_json().encode()
    )
    assert invoke(["report", ARTIFACT]) == ExitCode.OK
    return capsys.readouterr().out


def test_a_report_tells_how_the_precision_was_had_and_what_to_know_of_it(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(reported(), farm_env, capsys)
    assert "precision int8 by onnxruntime 1.32.0, percentile 99.99: 3 of 9 nodes" in out
    assert "warning: There are 32 samples." in out
    assert "labelled synthetic_calibration" in out
    assert "MatMul head stays as it was: excluded by the build" in out
    assert "7 nodes in all" in out
    assert "no output is a tensor of numbers" in out


def test_the_accuracy_of_the_file_is_shown_under_its_own_name(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    view = artifact()
    assert view.report is not None
    assert view.report.accuracy is not None
    accuracy = view.report.accuracy.model_dump(mode="json")
    out = shown(reported(model_accuracy=accuracy), farm_env, capsys)
    assert "output of the model file" in out
    assert "precision as the model came" in shown(view, farm_env, capsys)


def test_a_report_names_the_layers_that_int8_costs_most(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"node": f"layer-{n}", "operator": "Conv", "cosine_loss": 0.1 / n} for n in (1, 2, 3)]
    costs = {
        "how": "one at a time",
        "layers_count": 4,
        "tried": 3,
        "layers": rows,
        "estimate_samples": 32,
        "trial_samples": 4,
        "steps": [{"kept": 0, "cosine": 0.875}, {"kept": 1, "cosine": 0.995}],
    }
    view = reported(sensitivity=SensitivityReport.model_validate(costs))
    out = shown(view, farm_env, capsys)
    assert out.index("layer-1") < out.index("layer-3")
    assert "3 of 4 were tried on 4 samples: one at a time" in out
    assert "0: 0.875, 1: 0.995" in out
    assert view.report is not None
    line = "int8 costs most in layer-1 0.1, layer-2 0.05, layer-3 0.033 (loss of cosine)"
    assert list(costliest(view.report.precision)) == [line]


def test_what_layers_cost_is_asked_for_by_a_word_or_a_number(farm_env: LoopbackFarm) -> None:
    bodies = _submitting(farm_env)
    for text in ("true", "16"):
        assert invoke([*INT8, DATA, "--option", f"precision.sensitivity={text}"]) == ExitCode.OK
    assert [row["precision"]["sensitivity"] for row in bodies] == [True, 16]


def test_what_a_precision_warned_of_stands_beside_its_verdict(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    view = reported(findings=[warning_finding("calibration_range_differs", "x reaches 255.")])
    view = view.model_copy(
        update={"state": ArtifactState.QUARANTINED, "kept_back": "slower than its twin"}
    )
    assert "kept back slower than its twin" in shown(view, farm_env, capsys)
    farm_env.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(
        200, build(BuildState.SUCCEEDED, [], [published()]).model_dump_json().encode()
    )
    assert invoke(["show", "bld_1"]) == ExitCode.OK
    assert "precision warning: x reaches 255." in capsys.readouterr().out
