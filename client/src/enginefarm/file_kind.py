"""Tell by its first bytes what a file is that is no ONNX model, and say what to do with it."""

from __future__ import annotations

import re
import struct

from enginefarm.errors import InvalidModel
from enginefarm.onnx_refusals import not_a_model

SNIFFED_BYTES = 1 << 16

_UNPACK = "Unpack it and send the .onnx file inside."
_AGAIN = "The download went wrong: fetch the model itself; some hosts need a login."
_TF = "Convert it with tf2onnx: python -m tf2onnx.convert."
_EXPORT = "Export the model itself to ONNX."
_ENGINE = "Send the ONNX model it was built from: an engine is a program and fits one GPU only."
_MAGICS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (0, b"Rar!", "a RAR archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", _TF),
    (0, b"\x93NUMPY", "a NumPy array", _EXPORT),
    (0, b"GGUF", "a GGUF file", _EXPORT),
    (0, b"ftrt", "a TensorRT engine", _ENGINE),
    (0, b"vtrt", "a TensorRT-RTX engine", _ENGINE),
    (4, b"TFL3", "a TensorFlow Lite model", "Convert it: python -m tf2onnx.convert --tflite."),
    (4, b"ORTM", "ONNX Runtime's own .ort format", "Send the .onnx file that it was made from."),
    (0, b"RKNN", "an RKNN model", _EXPORT),
    (0, b"ML\xefR", "MLIR bytecode", _EXPORT),
    (0, b"\x7fELF", "a program", _EXPORT),
    (0, b"MZ", "a Windows program", _EXPORT),
    (0, b"\x89PNG", "a PNG image", _EXPORT),
    (0, b"\xff\xd8\xff", "a JPEG image", _EXPORT),
    (0, b"%PDF", "a PDF document", _EXPORT),
)
_SPACE = rb"(?:\xef\xbb\xbf)?\s*"
_BEGINNINGS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"PK(?:\x03\x04|\x05\x06)"), "a ZIP archive", _UNPACK),
    (
        re.compile(_SPACE + rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE),
        "an HTML page",
        _AGAIN,
    ),
    (re.compile(_SPACE + rb"<\?xml\b"), "an XML document", _EXPORT),
    (re.compile(_SPACE + rb'[{\[]\s*["{\[}\]]'), "a JSON text", _EXPORT),
)
# Protocol 2 and later have a mark; the older ones are text and begin as one of these does.
_PICKLE = re.compile(
    rb"\x80[\x02-\x05]|\(dp?[0-9]*\n|\(lp?[0-9]*\n|c[A-Za-z_][\w.]*\n[A-Za-z_]\w*\n"
)
_LFS = re.compile(rb"version https?://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PICKLE_IN_ZIP = re.compile(rb"(?:^|[/\w.-])(?:data|constants)\.pkl|\.pickle")
_SAFETENSORS_HEADER = 8


def refuse_other_kinds(head: bytes, tail: bytes, size: int) -> None:
    """Refuse a file whose first bytes say that it is something else.

    Raises:
        InvalidModel: ``lfs_pointer``, ``pickle_refused`` or ``not_a_model``.
    """
    if _LFS.match(head):
        raise InvalidModel(
            "The file is a Git LFS pointer, not the model.",
            code="lfs_pointer",
            why="The repository was cloned without its large files.",
            fix="Run git lfs pull in the clone and send the file again.",
        )
    if _is_pickle(head, tail):
        raise InvalidModel(
            "The file is a Python pickle, as PyTorch's .pt, .pth and .ckpt are.",
            code="pickle_refused",
            why="Reading a pickle runs whatever is in it, so the farm never does.",
            fix="Where you trust the file, load it and export the model to ONNX with "
            "torch.onnx.export(model, inputs, 'model.onnx', dynamo=True); send that.",
        )
    known = _known(head, size)
    if known is not None:
        raise not_a_model(f"it is {known[0]}", known[1])


def _is_pickle(head: bytes, tail: bytes) -> bool:
    if head.startswith(_ZIP):
        return any(_PICKLE_IN_ZIP.search(part) is not None for part in (head, tail))
    return _PICKLE.match(head) is not None


def _known(head: bytes, size: int) -> tuple[str, str] | None:
    for at, magic, kind, fix in _MAGICS:
        if head[at : at + len(magic)] == magic:
            return kind, fix
    if _is_safetensors(head, size):
        return "a safetensors file: weights without a graph", _EXPORT
    return next(((kind, fix) for begins, kind, fix in _BEGINNINGS if begins.match(head)), None)


def _is_safetensors(head: bytes, size: int) -> bool:
    """Tell by its header: the length of a JSON object, then the object."""
    if len(head) <= _SAFETENSORS_HEADER:
        return False
    (length,) = struct.unpack_from("<Q", head)
    fits = len(b"{}") <= length <= size - _SAFETENSORS_HEADER
    return bool(fits and head[_SAFETENSORS_HEADER : _SAFETENSORS_HEADER + 1] == b"{")
