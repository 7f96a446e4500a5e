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
import zlib
from pathlib import Path

import numpy as np
import pytest

from enginefarm.errors import InvalidModel
from enginefarm.file_kind import SNIFFED_BYTES, refuse_other_kinds
from enginefarm.model_file import scan_model
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


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(3), ids=np.zeros(2))
    return stream.getvalue()


def delimited(number: int, data: bytes) -> bytes:
    """Return a short field of protobuf."""
    return bytes([number << 3 | 2, len(data)]) + data


def saved_model() -> bytes:
    """Return how TensorFlow's SavedModel begins: a version, and a graph with its operators."""
    operators = delimited(2, delimited(1, delimited(1, b"AddV2")))
    return b"\x08\x01" + delimited(2, delimited(1, operators + delimited(4, b"serve")))


def objects() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    return stream.getvalue()


OTHERS = {
    "a gzip archive": gzip.compress(b"x"),
    "a tar archive": tarred(),
    "a ZIP archive": zipped("model.onnx"),
    "a NumPy array": npy(),
    "a safetensors file": safetensors(),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + b"\0" * 100,
    "a GGUF file": b"GGUF\x03\0\0\0",
    "an LZ4 archive": b"\x04\x22\x4d\x18" + b"\0" * 20,
    "a Keras archive": zipped("metadata.json", "config.json", "model.weights.h5"),
    "a CoreML package": zipped("Manifest.json", "Data/com.apple.CoreML/model.mlmodel"),
    "a ZIP archive of a TensorFlow SavedModel": zipped("m/saved_model.pb", "m/variables/x"),
    "a ZIP archive with an .onnx file": zipped("README", "m.onnx"),
    "an .npz file of arrays": npz(),
    "a TensorFlow SavedModel": saved_model(),
    "a TensorFlow graph": delimited(1, delimited(1, b"in/x") + delimited(2, b"Placeholder")),
    "an OpenVINO model": b'<?xml version="1.0"?>\n<net name="m" version="11">',
    "an ExecuTorch program": b"\x1c\0\0\0ET12" + b"\0" * 60,
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
    "a dict of protocol 1": pickle.dumps({"w": 1}, protocol=1),
    "joblib's": zlib.compress(pickle.dumps({"w": 1})),
    "an array of objects": objects(),
    "PyTorch's archive": zipped("model/version", "model/data.pkl", "model/data/0"),
    "TorchScript's archive": zipped("m/constants.pkl", "m/code/__torch__.py"),
    "far behind in the archive": zipped(*[f"w/{n:05}" for n in range(2000)], "w/data.pkl"),
}


@pytest.mark.parametrize("data", PICKLES.values(), ids=PICKLES.keys())
def test_a_pickle_is_refused_as_one(data: bytes) -> None:
    assert refusal(data).code == "pickle_refused"


@pytest.mark.parametrize(
    "names",
    [
        ("m/archive_format", "m/models/model.json", "m/data/weights/weight_0"),
        ("serialized_exported_program.json", "serialized_state_dict.pt", "version"),
        ("m/archive_format", "m/data/constants/data.pkl"),
    ],
)
def test_an_exported_program_is_refused_as_what_it_is(names: tuple[str, ...]) -> None:
    """It is code, and there is no sandbox for it here; the error says so."""
    error = refusal(zipped(*names))

    assert error.code == "program_refused"
    assert "no sandbox" in error.why
    assert "torch.onnx.export" in error.fix


def test_each_kind_says_the_way_to_a_model() -> None:
    """Somebody who has weights alone needs other advice than somebody with a graph."""
    assert "--saved-model" in refusal(saved_model()).fix
    assert "--tflite" in refusal(OTHERS["a TensorFlow Lite model"]).fix
    assert "dataset" in refusal(npz()).fix
    assert "Unpack" in refusal(OTHERS["a tar archive"]).fix
    assert "weights into" in refusal(safetensors()).fix


def test_a_coreml_model_is_told_from_an_empty_one(tmp_path: Path) -> None:
    """It begins as an ONNX model does; what it holds instead of a graph gives it away."""
    path = tmp_path / "m.mlmodel"
    path.write_bytes(b"\x08\x04" + delimited(2, b"\n\x03abc") + b"\xa2\x1f\x02ab")

    with pytest.raises(InvalidModel) as caught:
        scan_model(path)

    assert caught.value.code == "not_a_model"
    assert "CoreML" in caught.value.why


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
