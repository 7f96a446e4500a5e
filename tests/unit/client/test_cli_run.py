"""``run`` tries an engine that was pulled; the other commands do without its extra."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import one_node_model


@pytest.fixture
def engine(farm_env: LoopbackFarm, key: SigningKey, trust_file: Path, tmp_path: Path) -> Path:
    release = Release.of(key, {"model.onnx": one_node_model()})
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


@pytest.mark.parametrize(
    ("words", "code", "sentences"),
    [
        (["--shape", "x=1x3x4"], "shape_refused", ("declares it as [N, 3]",)),
        (["--shape", "x=2x5"], "shape_refused", ("2x5", "[N, 3]")),
        (["--shape", "x=9x3"], "outside_profile", ("from 1x3 to 4x3", "--outside-profile")),
        (["--shape", "x=0x3"], "outside_profile", ("from 1x3 to 4x3",)),
        (["--shape", "z=1x3"], "unknown_input", ("inputs are x",)),
        (["--synthetic", "x=2:1"], "invalid_field", ("low <= high", "ids=0:30521")),
        (["--synthetic", "z=1"], "unknown_input", ("inputs are x",)),
    ],
)
def test_what_the_engine_cannot_take_is_refused_in_three_sentences(
    words: list[str],
    code: str,
    sentences: tuple[str, ...],
    engine: Path,
    trust_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke(["run", str(engine), "--trust", str(trust_file), *words]) == ExitCode.BAD_INPUT

    err = capsys.readouterr().err
    assert f"[{code}]" in err
    assert "why: " in err
    assert "fix: " in err
    for sentence in sentences:
        assert sentence in err


@pytest.mark.parametrize("words", [["--shape", "x"], ["--shape", "x=1x3:2x3:4x3"]])
def test_a_shape_that_cannot_be_read_is_a_usage_error(
    words: list[str], engine: Path, trust_file: Path
) -> None:
    assert invoke(["run", str(engine), "--trust", str(trust_file), *words]) == ExitCode.USAGE


def test_a_shape_outside_of_the_profile_is_tried_when_that_is_meant(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["run", str(engine), "--trust", str(trust_file), "--shape", "x=9x3"]

    assert invoke([*line, "--outside-profile"]) == ExitCode.OK
    assert "out y float32 [9, 3]" in capsys.readouterr().out


def test_what_the_runtime_refuses_is_no_mistake_of_ours(
    engine: Path,
    trust_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object, **__: object) -> None:
        message = "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : no\nat node 7"
        raise RuntimeError(message)

    line = ["run", str(engine), "--trust", str(trust_file)]
    with monkeypatch.context() as patched:
        patched.setattr("onnxruntime.InferenceSession.run", refuse)
        assert invoke(line) == ExitCode.BAD_INPUT
    assert "[engine_run_failed]" in capsys.readouterr().err
    monkeypatch.setattr("onnxruntime.InferenceSession", refuse)
    assert invoke(line) == ExitCode.THIS_MACHINE
    assert "It was built with 1.32.0" in capsys.readouterr().err


def test_the_runtime_leaves_nothing_at_home_and_tells_nobody(
    engine: Path, trust_file: Path, tmp_path: Path
) -> None:
    """In a process of its own: what decides it is set before the runtime is imported."""
    home = tmp_path / "alone"
    home.mkdir()
    script = "import sys; from enginefarm.cli.app import invoke; sys.exit(invoke(sys.argv[1:]))"
    line = [sys.executable, "-c", script, "run", str(engine), "--trust", str(trust_file)]

    told = subprocess.run(line, env={"HOME": str(home)}, check=False, capture_output=True)

    assert told.returncode == ExitCode.OK, told.stderr
    assert not list(home.rglob(".onnxruntime"))


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
