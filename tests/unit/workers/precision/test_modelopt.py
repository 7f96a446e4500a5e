"""What is asked of ModelOpt's environment and what is made of its answers; a stand-in answers."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.errors import JobFailed
from enginefarm.precision import Precision
from enginefarm.precision_report import PrecisionRecipe
from enginefarm.state import Blame
from tests.unit.workers.precision.made import (
    CALIBRATION,
    images,
    one_by_one,
    small_network,
    weight,
)
from tests.unit.workers.repair.made import model, value
from workers.precision.changing import Work
from workers.precision.tools.choosing import chosen
from workers.precision.tools.modelopt import ModelOpt, _write
from workers.precision.tools.modelopt_script import Reader, answer
from workers.tool_script import ask_versions, version_of

VERSIONS = {"nvidia-modelopt": "0.47.0", "onnx": "1.21.0", "onnxruntime": "1.24.4"}
ANSWERS = """#!{python}
import json, os, shutil, sys
if sys.argv[-1].startswith("--"):
    print("a line of a library")
    print(json.dumps({versions!r}))
    sys.exit(0)
asked = json.load(open(sys.argv[-2]))
shutil.copy(sys.argv[-2], {kept!r})
json.dump(dict(os.environ), open({kept!r} + ".env", "w"))
{does}
"""
COPIES = "shutil.copy(asked['model'], asked['made']); json.dump({}, open(sys.argv[-1], 'w'))"


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], ModelOpt]:
    """Return a maker of tools whose environment's python does what a test wants."""

    def made(does: str) -> ModelOpt:
        path = tmp_path / "python"
        kept = str(tmp_path / "asked.json")
        path.write_text(
            ANSWERS.format(python=sys.executable, versions=VERSIONS, kept=kept, does=does)
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return ModelOpt(path)

    return made


def recipe(kind: str, **asked: Any) -> PrecisionRecipe:  # noqa: ANN401 - any option
    told = {"kind": kind, "tool": "modelopt", "calibration": CALIBRATION} | asked
    made = Precision.model_validate(told).recipe | {"tool_version": "0"}
    return PrecisionRecipe.model_validate(made)


def work(folder: Path, kind: str, **asked: Any) -> Work:  # noqa: ANN401 - any option
    (folder / "work").mkdir()
    few = list(one_by_one(images(0, 3)))
    return Work(
        small_network(), recipe(kind, **asked), few, few, folder / "work", lambda *_said: None
    )


def asked_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "asked.json").read_text())
    return found


def test_a_version_names_what_else_decides_the_result(
    stand_in: Callable[[str], ModelOpt],
) -> None:
    tool = stand_in("")
    assert tool.version == "0.47.0+onnx1.21.0.onnxruntime1.24.4"
    assert tool.versions()["modelopt/onnx"] == "1.21.0"


def test_it_is_asked_by_names_and_sees_no_secret_and_nothing_of_the_farm(
    tmp_path: Path, stand_in: Callable[[str], ModelOpt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEFARM_ENROLMENT_TOKEN", "a secret")
    monkeypatch.setenv("PYTHONPATH", "/of/the/farm")
    with pytest.raises(JobFailed) as refused:  # since nothing was changed
        stand_in(COPIES).change(work(tmp_path, "int8", exclude=["first"], method="minmax"))
    assert refused.value.code == "precision_without_effect"
    asked = asked_of(tmp_path)
    assert (asked["kind"], asked["method"], asked["exclude"]) == ("int8", "minmax", ["first"])
    env = json.loads((tmp_path / "asked.json.env").read_text())
    assert env["PYTHONHASHSEED"] == "0"
    assert not {name for name in env if "FARM" in name} | ({"PYTHONPATH"} & set(env))


def test_samples_are_files_of_their_own_without_objects(
    tmp_path: Path, stand_in: Callable[[str], ModelOpt]
) -> None:
    with pytest.raises(JobFailed):
        stand_in(COPIES).change(work(tmp_path, "int8"))
    folder = Path(asked_of(tmp_path)["folder"])
    reader = Reader(folder / "samples", folder / "taken")
    assert np.array_equal(reader.get_first()["x"], images(0, 1))
    assert len(list(reader)) == 3
    assert (folder / "taken").read_text() == "3"
    reader.rewind()
    assert reader.get_next() is not None


def test_an_input_may_have_the_name_of_an_argument(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    feeds = {name: np.arange(3, dtype=np.int32) for name in ("file", "allow_pickle", "a/b:0")}
    _write([feeds], tmp_path / "samples", lambda *_said: None)
    found = Reader(tmp_path / "samples", tmp_path / "taken").get_first()
    assert set(found) == set(feeds)
    assert all(np.array_equal(found[name], feeds[name]) for name in feeds)


def test_what_it_leaves_in_the_place_of_its_count_keeps_nobody_waiting(
    tmp_path: Path, stand_in: Callable[[str], ModelOpt]
) -> None:
    said: list[str] = []
    asked = work(tmp_path, "int8")
    asked.alive = lambda phase, detail: said.append(detail) if phase == "calibrating" else None
    does = "os.mkfifo('taken'); import time; time.sleep(1.5); sys.exit(3)"
    with pytest.raises(JobFailed, match="status 3"):
        stand_in(does).change(asked)
    assert said == ["0 samples"]


def test_int4_by_rounding_is_given_no_samples_and_makes_none_up(
    tmp_path: Path, stand_in: Callable[[str], ModelOpt]
) -> None:
    with pytest.raises(JobFailed):
        stand_in(COPIES).change(work(tmp_path, "int4", block_size=16, calibration=None))
    folder = Path(asked_of(tmp_path)["folder"])
    assert Reader(folder / "samples", folder / "taken").get_next() is None


@pytest.mark.parametrize(
    ("does", "error", "words"),
    [
        ("json.dump({'error': 'KeyError: w'}, open(sys.argv[-1], 'w'))", JobFailed, "KeyError: w"),
        ("os.kill(os.getpid(), 11)", JobFailed, "signal 11"),
        ("sys.exit(3)", JobFailed, "status 3"),
        ("os.kill(os.getpid(), 9)", MemoryError, ""),
        ("json.dump({'memory': True}, open(sys.argv[-1], 'w'))", MemoryError, ""),
        ("json.dump({'errno': 28, 'error': 'full'}, open(sys.argv[-1], 'w'))", OSError, "full"),
        ("json.dump({'errno': 36, 'error': 'long'}, open(sys.argv[-1], 'w'))", JobFailed, "long"),
        ("json.dump([1], open(sys.argv[-1], 'w'))", JobFailed, "no answer"),
        ("open(sys.argv[-1], 'wb').write(b'\\xff' * 9)", JobFailed, "no answer"),
        ("open(sys.argv[-1], 'w').write('[' * 999999)", JobFailed, "no answer"),
        ("os.mkfifo(sys.argv[-1])", JobFailed, "no answer"),
        ("os.symlink('/dev/zero', sys.argv[-1])", JobFailed, "no answer"),
        ("json.dump({}, open(sys.argv[-1], 'w'))", JobFailed, "no model"),
    ],
)
def test_how_it_ends_is_told_as_what_it_is(
    tmp_path: Path,
    stand_in: Callable[[str], ModelOpt],
    does: str,
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error) as raised:
        stand_in(does).change(work(tmp_path, "int8"))
    if isinstance(raised.value, JobFailed):
        assert raised.value.code == "precision_tool_failed"
        assert words in raised.value.why
    else:
        assert words in str(raised.value)


def test_a_job_that_is_stopped_is_not_blamed_on_the_tool(
    tmp_path: Path, stand_in: Callable[[str], ModelOpt]
) -> None:
    def alive(phase: str, _detail: str) -> None:
        if phase == "calibrating":
            raise JobFailed("The job was stopped.", blame=Blame.NODE, code="cancelled")

    asked = work(tmp_path, "int8")
    asked.alive = alive
    with pytest.raises(JobFailed) as raised:
        stand_in("os.kill(os.getpid(), 15)").change(asked)
    assert raised.value.code == "cancelled"


def test_an_environment_without_it_is_told_by_what_it_says() -> None:
    with pytest.raises(Exception, match="status 1"):
        ask_versions(Path(sys.executable), importing=False)
    assert version_of(VERSIONS).startswith("0.47.0+")


def test_what_the_tool_raises_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.precision.tools import modelopt_script

    def nothing() -> tuple[Any, Any]:
        message = "no module"
        raise ImportError(message)

    monkeypatch.setattr(modelopt_script, "modules", nothing)
    assert answer({"kind": "int8"}) == {"error": "ImportError: no module"}


def matrices() -> onnx.ModelProto:
    """Five products of matrices, of which only the first can be in int4."""
    weights = [
        weight("even", np.ones((32, 8))),
        weight("odd", np.ones((24, 8))),
        weight("stack", np.ones((2, 32, 8))),
        weight("turned", np.ones((32, 16))),
        weight("shared", np.ones((32, 8))),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "even"], ["a"], name="even"),
        helper.make_node("MatMul", ["z", "odd"], ["b"], name="odd"),
        helper.make_node("MatMul", ["x", "stack"], ["c"], name="stack"),
        helper.make_node("Gemm", ["v", "turned"], ["d"], name="turned", transB=1),
        helper.make_node("MatMul", ["x", "shared"], ["e"], name="shared"),
        helper.make_node("Gather", ["shared", "i"], ["f"], name="look-up"),
        helper.make_node("MatMul", ["x", "w"], ["g"], name="of two inputs"),
    ]
    inputs = [
        value("x", 1, 32),
        value("z", 1, 24),
        value("v", 1, 16),
        value("w", 32, 8),
        helper.make_tensor_value_info("i", TensorProto.INT64, [1]),
    ]
    outputs = [value(name, *shape) for name, shape in (("a", (1, 8)), ("b", (1, 8)))]
    return model(nodes, inputs, outputs, weights)


def test_int4_leaves_out_what_it_would_spoil_and_says_why() -> None:
    choice = chosen(matrices().graph, recipe("int4", block_size=16, method="awq-lite"))
    assert choice.able - set(choice.excluded) == {"even"}
    assert "whole blocks of 16" in choice.why["odd"]
    assert "no fp32 matrix" in choice.why["stack"]
    assert "transposed" in choice.why["turned"]
    assert "look-up" in choice.why["shared"]
    by_rounding = chosen(matrices().graph, recipe("int4", block_size=16))
    assert "turned" not in by_rounding.excluded


def test_the_operators_that_a_build_names_are_the_only_ones_that_are_cast() -> None:
    choice = chosen(small_network().graph, recipe("fp16", op_types=["Conv"]))
    assert choice.able == {"first", "second"}
    assert "MatMul" in choice.left
    assert "Conv" not in choice.left
    assert numpy_helper.to_array(small_network().graph.initializer[0]).dtype == np.float32
