"""The check stage asks the runtime whenever that can help, and stops at nothing else."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.hostile.made import ROWS, info, model, ranged, tensor, weight
from enginefarm.finding import Finding, error_finding
from enginefarm.preflight.subject import Room
from enginefarm.spec import Profile
from enginefarm.target import Target
from tasks.messages import BackendDescription, Device
from workers.backends.base import Compiled, ModelSource, ProgressSink, Runner
from workers.checking.whole import check_model


class Backend:
    """A runtime that says what it is told to say, and counts how often it was asked."""

    name = "tensorrt-rtx"
    engine_file = "model.plan"

    def __init__(self, *said: Finding) -> None:
        self.said = list(said)
        self.asked = 0

    def describe(self, _devices: list[Device]) -> BackendDescription:
        return BackendDescription(name=self.name, version="1.7.1.116", builds=[], measures=[])

    def versions(self) -> dict[str, str]:
        return {}

    def check(self, _source: ModelSource) -> list[Finding]:
        self.asked += 1
        return self.said

    def compile(self, _source: ModelSource, _out: Path, _progress: ProgressSink) -> Compiled:
        raise NotImplementedError

    def load(self, _engine: Path, _target: Target, _threads: int) -> Runner:
        raise NotImplementedError


class Silence:
    """Nobody listens."""

    stopping = False

    def report(self, _fraction: float | None, _phase: str, _detail: str = "") -> None:
        """Say nothing."""


def checked(
    folder: Path,
    made: onnx.ModelProto | bytes,
    *said: Finding,
    room: Room | None = None,
    profile: Profile = ROWS,
) -> tuple[list[Finding], int]:
    path = folder / "model.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    backend = Backend(*said)
    source = ModelSource(path, Target.parse("tensorrt-rtx@sm_89"), [profile])
    found = check_model(source, backend, room or Room(), Silence())  # type: ignore[arg-type]  # a backend in miniature
    return found, backend.asked


def dense() -> onnx.ModelProto:
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], weights=[weight("w", 16, 16)])


def test_a_right_model_is_asked_about_and_nothing_is_found(tmp_path: Path) -> None:
    assert checked(tmp_path, dense()) == ([], 1)


def test_a_file_that_cannot_be_read_is_the_only_thing_told(tmp_path: Path) -> None:
    found, asked = checked(tmp_path, b"\x08\x07not a model at all" * 10)
    assert ([each.code for each in found], asked) == (["not_a_model"], 0)


def test_a_job_with_too_little_memory_asks_no_runtime(tmp_path: Path) -> None:
    found, asked = checked(tmp_path, dense(), room=Room(memory_bytes=1 << 20))
    assert (found[0].code, asked) == ("memory_short", 0)


def test_errors_of_the_rules_do_not_keep_the_runtime_from_speaking(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Det", ["x"], ["d"], name="det"), helper.make_node("Relu", ["x"], ["y"])]
    )
    other = error_finding("unsupported_graph", "Something else.")
    found, asked = checked(tmp_path, made, other)
    assert asked == 1
    assert {"unsupported_operator", "unsupported_graph"} <= {each.code for each in found}
    assert found[-1].code == "other_targets"
    assert "onnxruntime@cpu" in found[-1].message


def test_what_fp16_cannot_hold_inside_is_noted(tmp_path: Path) -> None:
    large = numpy_helper.from_array(
        numpy_helper.to_array(tensor("w", TensorProto.FLOAT, [16], [6e4] * 16)), "w"
    )
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "w"], ["hot"]),
        helper.make_node("Sigmoid", ["hot"], ["y"]),
    ]
    found, _ = checked(tmp_path, model(nodes, weights=[large]))
    (note,) = [each for each in found if each.code == "activations_beyond_fp16"]
    assert note.tensors[0] == "hot"


def test_sizes_that_the_original_does_not_take_are_found_for_every_target(tmp_path: Path) -> None:
    # No rule follows a window in ceil mode, so only a run can tell.
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Reshape", ["p", "goal"], ["y"], name="view"),
    ]
    made = model(
        nodes,
        inputs=[info("x", ["n", 1, "h", "w"])],
        outputs=[info("y", ["n", 9])],
        weights=[helper.make_tensor("goal", TensorProto.INT64, [2], [-1, 9])],
    )
    profile = {"x": ranged([1, 1, 5, 5], [1, 1, 5, 5], [1, 1, 7, 7])}
    found, _ = checked(tmp_path, made, profile=profile)
    assert "profile_not_runnable" in {each.code for each in found}


@pytest.mark.parametrize("code", ["profile_order", "profile_rank"])
def test_a_profile_that_does_not_fit_is_not_tried(tmp_path: Path, code: str) -> None:
    wrong = {
        "profile_order": ranged([4, 16], [2, 16], [8, 16]),
        "profile_rank": ranged([4], [4], [4]),
    }
    found, asked = checked(tmp_path, dense(), profile={"x": wrong[code]})
    assert ([each.code for each in found if each.severity == "error"], asked) == ([code], 1)


def test_a_node_with_too_little_memory_does_not_try_what_goes_to_another(tmp_path: Path) -> None:
    room = Room(memory_bytes=1 << 26, most_memory_bytes=1 << 33)
    found, asked = checked(tmp_path, dense(), room=room)
    assert ([each.code for each in found], asked) == (["memory_tight", "profile_not_tried"], 0)
