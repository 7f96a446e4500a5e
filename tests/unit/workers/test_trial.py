"""What a model does not take shows before anything is built, and the remedy is about sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from enginefarm.errors import JobFailed
from enginefarm.proposal import propose
from enginefarm.spec import Profile, ShapeRange
from enginefarm.state import Blame
from enginefarm.target import Target
from enginefarm.views import TensorView
from localfarm.models import shipped
from workers.backends.base import Array, Runner
from workers.backends.ort_session import open_reference
from workers.backends.trial import MOST_ELEMENTS, trial_runs

CPU = Target.parse("onnxruntime@cpu")
GPU = Target.parse("onnxruntime@sm_90")


class Picky:
    """A model that takes what ``takes`` says, and complains in words that nobody knows."""

    threads = 1

    says = "kernel 7 is unhappy"

    def __init__(self, takes: Callable[[Array], bool], dtype: str = "float") -> None:
        self.inputs = [TensorView(name="x", dtype=dtype, shape=["n", "w"])]
        self.outputs: list[TensorView] = []
        self._takes = takes

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Run once."""
        if not self._takes(feeds["x"]):
            raise RuntimeError(self.says)
        return []


def profile(low: list[int], usual: list[int], high: list[int], name: str = "x") -> Profile:
    return {name: ShapeRange(min=low, opt=usual, max=high)}


def runner(takes: Callable[[Array], bool], dtype: str = "float") -> Runner:
    return Picky(takes, dtype)


def test_a_detector_at_odd_sizes_is_told_which_sizes_it_takes() -> None:
    detector = open_reference(shipped("rapidocr-det").file())
    asked = profile([1, 3, 50, 50], [1, 3, 160, 160], [1, 3, 320, 320])

    (found,) = trial_runs(detector, [asked], CPU)

    assert (found.code, found.where) == ("profile_not_runnable", "profile 0, min")
    assert "x=1x3x50x50" in found.message
    assert "It runs at x=1x3x160x160" in found.fix
    assert "x=1x3x64x64" in found.fix
    assert "xport" not in found.fix


@pytest.mark.parametrize("name", ["silero-if", "silero-op15", "silero-ifless"])
def test_a_speech_model_runs_at_the_profile_that_is_proposed_for_it(name: str) -> None:
    speech = open_reference(shipped(name).file())

    assert trial_runs(speech, [propose(speech.inputs)], CPU) == []


def test_a_speech_model_at_steps_that_it_does_not_take_fails_the_check() -> None:
    speech = open_reference(shipped("silero-op15").file())
    asked = {
        "input": ShapeRange(min=[1, 16], opt=[1, 128], max=[8, 512]),
        "state": ShapeRange(min=[2, 1, 128], opt=[2, 1, 128], max=[2, 8, 128]),
    }

    (found,) = trial_runs(speech, [asked], CPU)

    assert found.code == "profile_not_runnable"
    assert "input=8x512,state=2x8x128" in found.fix
    assert "values" not in found.fix


def test_the_profile_that_a_model_is_meant_for_is_not_complained_about() -> None:
    for name in ("silero-op15", "magika", "light-squeezenet"):
        model = shipped(name)
        profiles = [model.profile] if model.profile else []

        assert trial_runs(open_reference(model.file()), profiles, CPU) == []


def test_unknown_words_are_about_shapes_if_another_shape_runs() -> None:
    (found,) = trial_runs(
        runner(lambda x: x.shape[1] >= 16), [profile([1, 9], [1, 16], [1, 64])], CPU
    )

    assert found.where == "profile 0, min"
    assert "It runs at x=1x16 or at x=1x64 or at x=1x32:" in found.fix


def test_where_nothing_runs_unknown_words_may_be_about_values() -> None:
    assert trial_runs(runner(lambda _x: False), [profile([1, 9], [1, 16], [1, 64])], CPU) == []


def test_one_unlucky_draw_of_values_is_not_the_shapes_fault() -> None:
    calls = []

    def unlucky(x: Array) -> bool:
        calls.append(x.shape)
        return len(calls) != 1

    assert trial_runs(runner(unlucky), [profile([1, 9], [1, 16], [1, 64])], CPU) == []


@pytest.mark.parametrize("dtype", ["string", "float"])
def test_what_cannot_be_tried_is_not_judged(dtype: str) -> None:
    wide = profile([1, 1], [1, 1], [1, MOST_ELEMENTS + 1])

    found = trial_runs(runner(lambda _x: True, dtype), [wide], CPU)

    assert {each.code for each in found} <= {"profile_not_tried"}


class Crowded(Picky):
    """A model on a GPU that other work has filled; the words are those of ONNX Runtime 1.31."""

    says = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Clip node."
        " Name:'p2o.Clip.6' Status Message: /onnxruntime_src/onnxruntime/core/framework/"
        "bfc_arena.cc:360 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool,"
        " onnxruntime::Stream*) Failed to allocate memory for requested buffer of size 5898240"
    )


def test_a_gpu_without_room_is_not_the_profiles_fault() -> None:
    crowded = Crowded(lambda x: x.shape[1] < 16)

    with pytest.raises(JobFailed) as refused:
        trial_runs(crowded, [profile([1, 9], [1, 16], [1, 64])], GPU)

    assert (refused.value.code, refused.value.blame) == ("out_of_memory", Blame.NODE)
