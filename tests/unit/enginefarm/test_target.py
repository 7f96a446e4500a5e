"""A target is one text; what cannot be one is refused with the nearest that can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from enginefarm.errors import InvalidRequest
from enginefarm.sku import sku_of
from enginefarm.target import BACKEND_ARCHITECTURES, GPU_ARCHITECTURES, Target
from enginefarm.target_text import Portability, read_parts, runs_on

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


SKUS = st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,6}){0,3}", fullmatch=True).filter(
    lambda sku: sku_of(sku) == sku
)
RTX = st.sets(st.sampled_from(BACKEND_ARCHITECTURES["tensorrt-rtx"]), min_size=1)


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str]:
    """Give a target's text as somebody may write it, and its one form."""
    if draw(st.booleans()):
        archs = draw(RTX)
        written = draw(st.permutations(sorted(archs)))
        known = [arch for arch in BACKEND_ARCHITECTURES["tensorrt-rtx"] if arch in archs]
        return f"tensorrt-rtx@{'+'.join(written)}", f"tensorrt-rtx@{'+'.join(known)}"
    text = f"tensorrt@{draw(st.sampled_from(GPU_ARCHITECTURES[1:]))}"
    text += draw(st.just("") | SKUS.map(lambda sku: f":{sku}"))
    text += draw(st.sampled_from(["", *(f"+{mode}" for mode in Portability)]))
    return text, text


@given(texts())
def test_a_target_has_one_text_whatever_it_names(pair: tuple[str, str]) -> None:
    written, form = pair
    target = Target.parse(written)

    assert str(target) == form
    assert Target.parse(form) == target
    assert Holder.model_validate_json(Holder(target=target).model_dump_json()).target == target
    parts = read_parts(form)
    assert parts is not None
    assert (parts.text, parts.archs, parts.sku) == (form, target.archs, target.sku)


@given(texts(), texts())
def test_targets_are_in_one_order_and_equal_only_as_texts(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    a, b = Target.parse(one[0]), Target.parse(other[0])

    assert (a == b) == (one[1] == other[1])
    assert [a < b, b < a, a == b].count(True) == 1
    assert a != b or hash(a) == hash(b)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("tensorrt@sm_89:L4", "sku_refused", "tensorrt@sm_89:l4"),
        ("tensorrt@sm_89:NVIDIA-L4", "sku_refused", "tensorrt@sm_89:l4"),
        ("tensorrt@sm_89:_", "sku_refused", "tensorrt@sm_89:l4"),
        ("tensorrt@sm_89:" + "l" * 65, "sku_refused", "Write tensorrt@sm_89:"),
        ("tensorrt-rtx@sm_89:l4", "sku_refused", "Write tensorrt-rtx@sm_89."),
        ("onnxruntime@cpu:epyc", "sku_refused", "Write onnxruntime@cpu."),
        ("tensorrt@sm_89:", "invalid_target", "onnxruntime@cpu"),
        ("tensorrt@sm_89+", "invalid_target", "onnxruntime@cpu"),
        (
            "tensorrt@sm_89+same_compute_capability:l4",
            "invalid_target",
            "tensorrt@sm_89:l4+same_compute_capability",
        ),
        (
            "tensorrt@sm_89+same-compute-capability",
            "portability_refused",
            "'same_compute_capability'",
        ),
        ("tensorrt@sm_89+none", "portability_refused", "Write tensorrt@sm_89."),
        ("tensorrt@sm_75+ampere_plus", "portability_refused", "tensorrt@sm_80+ampere_plus"),
        ("tensorrt@sm_89+ampere_plus+ampere_plus", "portability_refused", "Write tensorrt@sm_89."),
        ("onnxruntime@sm_89+ampere_plus", "portability_refused", "Write onnxruntime@sm_89."),
        (
            "tensorrt-rtx@sm_89+same_compute_capability",
            "portability_refused",
            "Write tensorrt-rtx@sm_89.",
        ),
        ("tensorrt@sm_86+sm_89", "architectures_refused", "tensorrt@sm_86, tensorrt@sm_89"),
        ("tensorrt@sm_86:a10+sm_89", "architectures_refused", "tensorrt@sm_86, tensorrt@sm_89"),
        ("tensorrt-rtx@sm_89+sm_86+sm_89", "architectures_refused", "tensorrt-rtx@sm_86+sm_89"),
        ("tensorrt-rtx@sm_86+sm_90", "unsupported_architecture", "another backend"),
        ("tensorrt-rtx@sm_86+sm89", "unknown_architecture", "'sm_89'"),
    ],
)
def test_what_a_target_cannot_name_is_refused_with_what_to_write(
    text: str, code: str, said: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Target.parse(text)

    assert caught.value.code == code
    assert said in caught.value.fix


@pytest.mark.parametrize(
    ("text", "fits", "misfits"),
    [
        ("tensorrt@sm_89", ["sm_89 l4", "sm_89 geforce-rtx-4090"], ["sm_86 a10", "sm_90 h200"]),
        ("tensorrt@sm_89:l4", ["sm_89 l4"], ["sm_89 geforce-rtx-4090", "sm_86 l4"]),
        (
            "tensorrt@sm_89:l4+same_compute_capability",
            ["sm_89 l4", "sm_89 geforce-rtx-4090"],
            ["sm_90 h200"],
        ),
        (
            "tensorrt@sm_86+ampere_plus",
            ["sm_86 a10", "sm_80 a100", "sm_120 x", "sm_103 y"],
            ["sm_75 t4"],
        ),
        ("tensorrt-rtx@sm_89+sm_86", ["sm_86 a10", "sm_89 l4"], ["sm_120 x", "sm_80 a100"]),
    ],
)
def test_a_target_says_which_gpus_its_engine_is_for(
    text: str, fits: list[str], misfits: list[str]
) -> None:
    target = Target.parse(text)

    def is_for(gpu: str) -> bool:
        arch, sku = gpu.split()
        return runs_on(target.archs, target.sku, target.portability, arch, sku)

    assert [gpu for gpu in fits + misfits if is_for(gpu)] == fits


def test_an_object_with_an_empty_sku_is_no_second_spelling_of_the_plain_target() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Target.model_validate({"backend": "onnxruntime", "arch": "sm_89", "sku": ""})
    assert refused.value.code == "sku_refused"
