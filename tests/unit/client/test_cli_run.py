"""``run`` tries an engine that was pulled; the other commands do without its extra."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm


def _engine() -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@pytest.fixture
def engine(farm_env: LoopbackFarm, key: SigningKey, trust_file: Path, tmp_path: Path) -> Path:
    release = Release.of(key, {"model.onnx": _engine()})
    folder = tmp_path / "engine"
    line = ["pull", farm_env.serve(release), str(folder), "--trust", str(trust_file)]
    assert invoke(line) == ExitCode.OK
    return folder


def test_a_pulled_engine_is_run_at_the_shape_it_was_made_for(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert invoke(["run", str(engine), "--trust", str(trust_file), "--json"]) == ExitCode.OK

    told = json.loads(capsys.readouterr().out)
    assert told["inputs"] == {"x": {"dtype": str(np.dtype("float32")), "shape": [2, 3]}}
    assert told["outputs"]["y"]["shape"] == [2, 3]


def test_a_shape_may_be_named(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["run", str(engine), "--trust", str(trust_file), "--shape", "x=4x3"]

    assert invoke(line) == ExitCode.OK
    assert "out y float32 [4, 3]" in capsys.readouterr().out
    assert invoke([*line, "--shape", "z=1"]) == ExitCode.BAD_INPUT


def test_an_engine_that_was_changed_is_not_loaded(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = (engine / "model.onnx").read_bytes() + b"\n"
    (engine / "model.onnx").unlink()
    (engine / "model.onnx").write_bytes(changed)

    assert invoke(["run", str(engine), "--trust", str(trust_file)]) == ExitCode.VERIFICATION_REFUSED


def test_without_the_extra_run_says_how_to_get_it(
    engine: Path,
    trust_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    assert invoke(["run", str(engine), "--trust", str(trust_file)]) == ExitCode.THIS_MACHINE
    assert "./client[run]" in capsys.readouterr().err


def test_the_other_commands_need_only_what_the_client_declares() -> None:
    """In a process of its own, since this one has them."""
    script = (
        "import sys\n"
        "for name in ('numpy', 'onnxruntime', 'onnx', 'google', 'sqlalchemy', 'celery', 'fastapi',"
        " 'starlette', 'boto3', 'redis', 'structlog', 'pydantic_settings', 'securesystemslib',"
        " 'storage', 'tasks', 'api', 'workers'): sys.modules[name] = None\n"
        "from enginefarm.cli.app import invoke\n"
        "sys.exit(invoke(['--help']))\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
