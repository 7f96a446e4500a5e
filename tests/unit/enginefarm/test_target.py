"""A target is one text; what cannot be one is refused with the nearest that can."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from enginefarm.errors import InvalidRequest
from enginefarm.target import BACKEND_ARCHITECTURES, Target

ALL = [f"{name}@{arch}" for name, row in BACKEND_ARCHITECTURES.items() for arch in row]


class Holder(BaseModel):
    """Something that has a target."""

    target: Target


@pytest.mark.parametrize("text", ALL)
def test_every_known_pair_is_read_and_written_as_the_same_text(text: str) -> None:
    target = Target.parse(text)

    assert str(target) == text
    assert Holder(target=target).model_dump(mode="json") == {"target": text}
    assert Holder.model_validate({"target": text}).target == target


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("cpu", "invalid_target", "onnxruntime@cpu"),
        ("a@b@c", "invalid_target", "onnxruntime@cpu"),
        ("onnxruntime@ cpu", "invalid_target", "onnxruntime@cpu"),
        ("onnxruntme@cpu", "unknown_backend", "'onnxruntime'"),
        ("tensorrt@sm89", "unknown_architecture", "'sm_89'"),
        ("tensorrt-rtx@cpu", "unsupported_architecture", "another backend"),
        ("tensorrt-rtx@sm_90", "unsupported_architecture", "another backend"),
    ],
)
def test_what_is_no_target_is_refused_by_its_code(text: str, code: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Target.parse(text)

    assert caught.value.code == code
    assert said in caught.value.fix
