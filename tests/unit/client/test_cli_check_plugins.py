"""``check`` with plugins, by the rules alone: what nobody knows is left to the plugins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import helper

from bench.hostile.made import model
from enginefarm.cli.app import invoke
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import MODEL
from tests.unit.client.test_cli_check import ALONE


def test_what_a_plugin_may_have_is_left_to_it_where_one_is_named_for_the_backend(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model([helper.make_node("Ours", ["x"], ["y"], domain="our.ops")])
    made.opset_import.append(helper.make_opsetid("our.ops", 1))
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    targets = "onnxruntime@cpu,tensorrt@sm_89"
    line = ["check", str(tmp_path / "model.onnx"), "-t", targets, *ALONE, "--json"]
    invoke([*line, "--option", f"plugins.onnxruntime={MODEL}"])
    said = json.loads(capsys.readouterr().out)["targets"]
    codes = {target: [row["code"] for row in rows] for target, rows in said.items()}
    assert codes["onnxruntime@cpu"] == ["operator_of_plugin"]
    assert codes["tensorrt@sm_89"] == ["unsupported_operator"]
