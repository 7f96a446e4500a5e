"""Which two artifacts go together: one target, one interface, one version, shapes both take."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.manifest import ENGINE_TYPES, Descriptor
from enginefarm.profile import parse_shape_range
from enginefarm.spec import BuildSpec, Profile
from enginefarm.views import TensorView
from storage.models import Artifact
from tasks.comparing.subjects import Subject, require_alike, run_for

DIGEST = f"sha256:{'a' * 64}"
X: list[int | str | None] = ["batch", 4]


def tensor(name: str = "x", dtype: str = "float32", shape: list[Any] | None = None) -> TensorView:
    return TensorView(name=name, dtype=dtype, shape=X if shape is None else shape)


def profile(text: str) -> Profile:
    return {"x": parse_shape_range(text)}


def subject(
    target: str = "onnxruntime@cpu",
    version: str = "1.2",
    built: str = "1x4:2x4:8x4",
    **tensors: list[TensorView],
) -> Subject:
    told = {"inputs": [tensor()], "outputs": [tensor("y")]} | tensors
    return Subject(
        artifact=Artifact(target=target, digest=DIGEST),
        engine=Descriptor(media_type=ENGINE_TYPES["onnxruntime"], digest=DIGEST, size=1),
        spec=BuildSpec.model_validate({"model": DIGEST, "targets": [target]}),
        backend_version=version,
        profiles=[{name: row.model_dump() for name, row in profile(built).items()}],
        inputs=told["inputs"],
        outputs=told["outputs"],
    )


def refused(first: Subject, second: Subject, shapes: str = "1x4:2x4:8x4") -> str | None:
    try:
        require_alike((first, second), [profile(shapes)])
    except InvalidRequest as error:
        return f"{error.code}: {error.why}"
    return None


def test_two_of_one_kind_go_together_whatever_free_dimensions_are_called() -> None:
    other = subject(inputs=[tensor(shape=["N", 4])], outputs=[tensor("y", shape=[None, 4])])
    assert refused(subject(), other) is None
    more = [tensor("y"), tensor("z")]
    assert refused(subject(outputs=more), subject(outputs=more[::-1])) is None


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([tensor("image")], "Only one of them has the input 'image'"),
        ([tensor(), tensor("mask")], "Only one of them has the input 'mask'"),
        ([tensor(dtype="float16")], "'x' is float32 in one, float16 in the other"),
        ([tensor(shape=["batch", 8])], "'x' is ['batch', 4] in one"),
        ([tensor(shape=[1, 4])], "'x' is ['batch', 4] in one"),
        ([tensor(shape=["batch", 4, 1])], "'x' is ['batch', 4] in one"),
    ],
)
def test_another_interface_is_refused_with_the_first_difference(
    inputs: list[TensorView], said: str
) -> None:
    told = refused(subject(), subject(inputs=inputs))
    assert told is not None
    assert told.startswith("comparison_interface: ")
    assert said in told


def test_an_output_that_only_one_has_is_no_less() -> None:
    told = refused(subject(outputs=[tensor("y"), tensor("z")]), subject())
    assert told == "comparison_interface: Only one of them has the output 'z'."


def test_another_target_and_a_version_that_cannot_load_both_are_refused() -> None:
    told = refused(subject(), subject("onnxruntime@sm_89"))
    assert (told or "").startswith("comparison_target")
    one, other = subject("tensorrt@sm_89", "10.13"), subject("tensorrt@sm_89", "10.14")
    assert (refused(one, other) or "").startswith("comparison_versions")
    assert refused(one, one) is None
    assert refused(subject(version="1.2"), subject(version="1.3")) is None


@pytest.mark.parametrize(
    ("first", "second", "on"),
    [
        ("tensorrt@sm_89:l4", "tensorrt@sm_89", "tensorrt@sm_89:l4"),
        ("tensorrt@sm_89", "tensorrt@sm_89:l4", "tensorrt@sm_89:l4"),
        ("tensorrt@sm_89+same_compute_capability", "tensorrt@sm_89:l4", "tensorrt@sm_89:l4"),
        ("tensorrt@sm_89", "tensorrt@sm_89", "tensorrt@sm_89"),
        ("tensorrt@sm_89:l4", "tensorrt@sm_89:l40s", None),
        ("tensorrt-rtx@sm_86+sm_89", "tensorrt-rtx@sm_89", None),
    ],
)
def test_one_for_a_sku_goes_with_one_for_its_architecture_and_both_are_run_on_the_sku(
    first: str, second: str, on: str | None
) -> None:
    pair = subject(first), subject(second)
    told = refused(*pair)
    assert (told is None) is (on is not None)
    assert on is None or str(run_for(pair)) == on


def test_a_person_may_name_the_sku_but_not_another_than_an_artifact_is_for() -> None:
    plain, l4 = subject("onnxruntime@sm_89"), subject("onnxruntime@sm_89:l4")
    assert str(run_for((plain, plain), "l4")) == "onnxruntime@sm_89:l4"
    assert str(run_for((plain, l4), "l4")) == "onnxruntime@sm_89:l4"
    with pytest.raises(InvalidRequest) as another:
        run_for((plain, l4), "l40s")
    assert another.value.code == "comparison_target"
    with pytest.raises(InvalidRequest):
        run_for((plain, plain), "NVIDIA L4")
    with pytest.raises(InvalidRequest) as none:
        run_for((subject(), subject()), "l4")
    assert (none.value.code, none.value.fix) == ("sku_refused", "Leave out --on, in a body on.")
    ahead = subject("tensorrt-rtx@sm_89")
    assert str(run_for((ahead, ahead), "l4")) == "tensorrt-rtx@sm_89"


@pytest.mark.parametrize(
    ("built", "fits"),
    [("1x4:1x4:2x4", True), ("1x4:1x4:1x4", False), ("4x4:4x4:8x4", False), ("2x4:2x4:2x4", True)],
)
def test_the_second_must_take_what_the_first_is_measured_at(built: str, *, fits: bool) -> None:
    told = refused(subject(), subject(built=built))  # the first is measured at 2x4
    assert (told is None) is fits
    assert fits or (told or "").startswith("comparison_shapes")
