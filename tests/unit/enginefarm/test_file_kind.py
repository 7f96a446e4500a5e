"""A file that is no ONNX model is called what it is, and a pickle is never opened."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from enginefarm.errors import InvalidModel
from enginefarm.file_kind import SNIFFED_BYTES, refuse_other_kinds
from tests.refused import refused_with
from tests.unit.enginefarm.onnx_made import model


def refusal(data: bytes) -> InvalidModel:
    with pytest.raises(InvalidModel) as caught:
        refuse_other_kinds(data[:SNIFFED_BYTES], data[-SNIFFED_BYTES:], len(data))
    assert caught.value.fix
    return caught.value


def zipped(*names: str) -> bytes:
    """Return an archive with these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return stream.getvalue()


def tarred() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.onnx"))
    return stream.getvalue()


def npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    return stream.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0\0\0\0"


OTHERS = {
    "a gzip archive": gzip.compress(b"x"),
    "a tar archive": tarred(),
    "a ZIP archive": zipped("model.onnx"),
    "a NumPy array": npy(),
    "a safetensors file": safetensors(),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + b"\0" * 100,
    "a GGUF file": b"GGUF\x03\0\0\0",
    "a TensorRT engine": b"ftrt" + b"\0" * 60,
    "a TensorRT-RTX engine": b"vtrt" + b"\0" * 60,
    "a TensorFlow Lite model": b"\x1c\0\0\0TFL3" + b"\0" * 60,
    ".ort format": b"\x1c\0\0\0ORTM" + b"\0" * 60,
    "an HTML page": b"\xef\xbb\xbf\n<!DOCTYPE html><html>",
    "an XML document": b"<?xml version='1.0'?><net/>",
    "a JSON text": b'{\n  "error": "not found"}',
    "a program": b"\x7fELF\x02\x01\x01",
    "a PNG image": b"\x89PNG\r\n\x1a\n",
}


@pytest.mark.parametrize(("kind", "data"), OTHERS.items(), ids=OTHERS.keys())
def test_each_kind_of_file_is_called_by_its_name(kind: str, data: bytes) -> None:
    error = refusal(data)

    assert error.code == "not_a_model"
    assert kind in error.why


class Evil:
    """Ends the process that loads it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Return what is run by whoever loads it, and with what."""
        return sys.exit, ("a pickle was loaded",)


PICKLES = {
    **{f"protocol {number}": pickle.dumps(Evil(), protocol=number) for number in range(6)},
    "a dict of protocol 0": pickle.dumps({"w": 1}, protocol=0),
    "a list of protocol 0": pickle.dumps([1, 2], protocol=0),
    "PyTorch's archive": zipped("model/version", "model/data.pkl", "model/data/0"),
    "TorchScript's archive": zipped("m/constants.pkl", "m/code/__torch__.py"),
    "far behind in the archive": zipped(*[f"w/{n:05}" for n in range(2000)], "w/data.pkl"),
}


@pytest.mark.parametrize("data", PICKLES.values(), ids=PICKLES.keys())
def test_a_pickle_is_refused_as_one(data: bytes) -> None:
    assert refusal(data).code == "pickle_refused"


def test_a_pointer_of_git_lfs_is_told_from_the_model() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"

    assert refusal(pointer).code == "lfs_pointer"


@pytest.mark.parametrize(
    "data",
    [model(), b"", b"\x08\x07", b"version https://elsewhere.example/", b"PKx", b"{x"],
    ids=["a model", "nothing", "a beginning", "another version", "no archive", "no JSON"],
)
def test_what_could_be_a_model_is_left_to_the_scanner(data: bytes) -> None:
    assert (
        refused_with(refuse_other_kinds, data[:SNIFFED_BYTES], data[-SNIFFED_BYTES:], len(data))
        is None
    )


@pytest.mark.parametrize("length", [0, 1, 2**63])
def test_a_length_that_does_not_fit_the_file_makes_no_safetensors(length: int) -> None:
    data = struct.pack("<Q", length) + b"{}"

    assert refused_with(refuse_other_kinds, data, data, len(data)) is None
