"""What TensorRT and TensorRT-RTX have in common, without either: progress, words, headers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.backends.trt.header import header_fault, read_header
from workers.backends.trt.progress import PhaseTree
from workers.backends.trt.recording import Record, plain

NO_DRIVER = (
    "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (cudaError 35: CUDA driver"
    " version is insufficient for CUDA runtime version)"
)


def test_nested_phases_give_one_fraction() -> None:
    tree = PhaseTree()
    assert tree.start("build", None, 2) == 0.0
    tree.start("inner", "build", 4)
    assert tree.step("inner", 0) == 0.125
    assert tree.step("inner", 3) == 0.5
    assert tree.finish("inner") == 0.5
    assert tree.step("build", 0) == 0.5
    assert tree.step("build", 1) == 1.0


NAMES = st.sampled_from(["a", "b", "c", "d"])
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("start"), NAMES, st.none() | NAMES, st.integers(-1, 9)),
        st.tuples(st.just("step"), NAMES, st.none(), st.integers(0, 9)),
        st.tuples(st.just("finish"), NAMES, st.none(), st.just(0)),
    ),
    max_size=60,
)


@given(MOVES)
def test_the_fraction_never_falls_whatever_is_called(
    moves: list[tuple[str, str, str | None, int]],
) -> None:
    tree, last = PhaseTree(), 0.0
    for kind, name, parent, number in moves:
        if kind == "start":
            now = tree.start(name, parent, number)
        elif kind == "step":
            now = tree.step(name, number)
        else:
            now = tree.finish(name)
        assert last <= now <= 1.0
        last = now


def test_without_a_gpu_the_driver_is_never_blamed() -> None:
    record = Record(has_gpu=False)
    record.add_error(NO_DRIVER)
    record.add_error("Scale coefficients must all be positive")
    assert record.errors == ["Scale coefficients must all be positive"]


def test_with_a_gpu_a_driver_that_is_too_old_is_an_error() -> None:
    record = Record(has_gpu=True)
    record.add_error(NO_DRIVER)
    assert record.errors == [NO_DRIVER]


def test_repeated_words_are_kept_once() -> None:
    record = Record(has_gpu=True)
    for _ in range(3):
        record.add_warning("slow")
    assert record.warnings == ["slow"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("[graphScope.cpp::analyze::471] Error Code 2: no", "Error Code 2: no"),
        ("ModelImporter.cpp:1071: Make sure input sr has Int64 binding.", None),
        ("IBuilder::buildSerializedNetwork: Error Code 4: no", None),
        ("false", "false"),
    ],
)
def test_source_positions_are_left_out(said: str, meant: str | None) -> None:
    found = plain(said)
    assert ".cpp" not in found
    assert not found.startswith(":")
    if meant is not None:
        assert found == meant


BOTH = ("sm_86", "sm_89")


def engine(
    magic: bytes = b"vtrt",
    version: bytes = bytes((1, 7, 1, 116)),
    more: int = 0,
    bits: int = 0b1100,
    half: bytes = b"vtrt",
) -> bytes:
    """Return a file that begins as a TensorRT-RTX engine for sm_86 and sm_89 does."""
    body = bytearray(100)
    body[:4] = magic
    struct.pack_into("<Q", body, 16, 100 + more)
    body[24:28] = version
    body[28:32] = half
    struct.pack_into("<I", body, 32, bits)
    return bytes(body)


def test_a_header_names_kind_version_and_length(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_bytes(engine())
    header = read_header(path)
    assert header is not None
    assert (header.kind, header.version) == ("tensorrt-rtx", "1.7.1.116")
    assert header.declared_bytes == 100
    assert header.archs == BOTH
    assert header_fault(path, "tensorrt-rtx", "1.7.1.116", BOTH) is None


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "does not begin"),
        (engine()[:40], "does not begin"),
        (engine(b"PK\x03\x04"), "does not begin"),
        (engine(b"ftrt"), "is a tensorrt engine"),
        (engine(version=bytes((1, 6, 0, 1))), "names version 1.6.0.1"),
        (engine(more=1), "declares 101 bytes"),
        (engine(bits=0b1000), "has code for sm_89, and was to have it for sm_86 and sm_89"),
        (engine(bits=0), "has code for no architecture"),
    ],
)
def test_a_wrong_header_is_named(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "e"
    path.write_bytes(content)
    assert fault in (header_fault(path, "tensorrt-rtx", "1.7.1.116", BOTH) or "")


@pytest.mark.parametrize("content", [engine(half=b"else"), engine(bits=1 << 20)])
def test_a_header_whose_second_half_is_another_is_asked_for_no_architecture(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "e"
    path.write_bytes(content)
    header = read_header(path)
    assert header is not None
    assert header.archs is None
    assert header_fault(path, "tensorrt-rtx", "1.7.1.116", BOTH) is None
