"""Without a farm ``check`` looks at a model's files as an upload does."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from onnx import helper

from bench.hostile.made import model, weight
from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from tests.unit.client.support.server import LoopbackFarm

ALONE = ("--offline", "--profile", "x=1x16:4x16:8x16")


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_external_data_that_an_upload_would_refuse_is_refused_alone_too(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], weights=[weight("w", 16)])
    path = folder / "model.onnx"
    onnx.save(made, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    data = folder / "w.bin"
    if kind == "link":
        data.rename(tmp_path / "secret")
        data.symlink_to(tmp_path / "secret")
    else:
        data.unlink()
        os.mkfifo(data)

    assert invoke(["check", str(path), "-t", "onnxruntime@cpu", *ALONE]) == ExitCode.BAD_INPUT
    code = "external_path_escapes" if kind == "link" else "external_data_missing"
    assert code in capsys.readouterr().out
    assert farm_env.seen == []
