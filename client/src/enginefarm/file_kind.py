"""Tell by its first bytes what a file is that is no ONNX model, and say what to do with it."""

from __future__ import annotations

import re
import struct

from enginefarm.archive_kind import kind_of_zip
from enginefarm.errors import InvalidModel
from enginefarm.onnx_refusals import not_a_model

SNIFFED_BYTES = 1 << 16

_UNPACK = "Unpack it and send the .onnx file inside."
_AGAIN = "The download went wrong: fetch the model itself; some hosts need a login."
_TF_SAVED = "Convert it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx."
_TF_FROZEN = "Convert it: python -m tf2onnx.convert --graphdef FILE --inputs … --outputs …."
_TF_LITE = "Convert it: python -m tf2onnx.convert --tflite FILE --output model.onnx."
_KERAS = "Load it where you trust it, and convert it: tf2onnx.convert.from_keras(model)."
_EXPORT = "Export the model itself to ONNX."
_COREML = "Export the original model to ONNX; a CoreML model does not turn back into one."
_OPENVINO = "Send the ONNX model that it was made from; OpenVINO's .xml and .bin do not turn back."
_WEIGHTS = "Load the weights into the model's own code, and export that to ONNX."
_ENGINE = "Send the ONNX model it was built from: an engine is a program and fits one GPU only."
_TORCH = (
    "Where you trust the file, load it and export the model to ONNX with "
    "torch.onnx.export(model, inputs, 'model.onnx', dynamo=True); send that."
)
_DATASET = "Send it as a dataset for evaluation, with --evaluation; the model is the .onnx file."
_MAGICS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive", _UNPACK),
    (0, b"\x04\x22\x4d\x18", "an LZ4 archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (0, b"Rar!", "a RAR archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", _KERAS),
    (0, b"\x93NUMPY", "a NumPy array", _EXPORT),
    (0, b"GGUF", "a GGUF file", _WEIGHTS),
    (0, b"lmgg", "a GGML file", _WEIGHTS),
    (0, b"tjgg", "a GGML file", _WEIGHTS),
    (0, b"ftrt", "a TensorRT engine", _ENGINE),
    (0, b"ptrt", "a TensorRT engine", _ENGINE),
    (0, b"vtrt", "a TensorRT-RTX engine", _ENGINE),
    (4, b"TFL3", "a TensorFlow Lite model", _TF_LITE),
    (4, b"ORTM", "ONNX Runtime's own .ort format", "Send the .onnx file that it was made from."),
    (4, b"ET12", "an ExecuTorch program", _EXPORT),
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
    (
        re.compile(_SPACE + rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE),
        "an HTML page",
        _AGAIN,
    ),
    (
        re.compile(_SPACE + rb"(?:<\?xml[^>]{0,200}>\s*)?<net\s+name="),
        "an OpenVINO model (.xml)",
        _OPENVINO,
    ),
    (re.compile(_SPACE + rb"<\?xml\b"), "an XML document", _EXPORT),
    (re.compile(_SPACE + rb'[{\[]\s*["{\[}\]]'), "a JSON text", _EXPORT),
    # Protobuf, too, but of TensorFlow: schema version 1 and a meta graph; or nodes and their ops.
    (
        re.compile(
            rb"\x08\x01\x12[\x80-\xff]{0,4}[\x00-\x7f]\x0a[\x80-\xff]{0,4}[\x00-\x7f][\x0a\x12\"]"
        ),
        "a TensorFlow SavedModel",
        _TF_SAVED,
    ),
    (
        re.compile(
            rb"\x0a[\x04-\xff][\x00-\x7f]{0,2}\x0a[\x01-\x7f][\w./:-]{1,120}"
            rb"\x12[\x02-\x20](?:Placeholder|Const|NoOp|VariableV2|VarHandleOp|Identity)"
        ),
        "a TensorFlow graph (.pb)",
        _TF_FROZEN,
    ),
)
_ARCHIVES: dict[str, tuple[str, str]] = {
    "keras": ("a Keras archive (.keras)", _KERAS),
    "coreml": ("a CoreML package", _COREML),
    "saved_model": ("a ZIP archive of a TensorFlow SavedModel", _TF_SAVED),
    "npz": ("an .npz file of arrays", _DATASET),
    "onnx": ("a ZIP archive with an .onnx file", _UNPACK),
    "zip": ("a ZIP archive", _UNPACK),
}
# Protocol 2 and later have a mark; the older ones begin as one of these does. joblib packs them.
_PICKLE = re.compile(
    rb"\x80[\x02-\x05]|\(dp?[0-9]*\n|\(lp?[0-9]*\n|c[A-Za-z_][\w.]*\n[A-Za-z_]\w*\n"
    rb"|[}\])]q[\x00-\x09]"
)
_PACKED_PICKLE = re.compile(rb"x[\x01\x5e\x9c\xda]|ZF0x")
_OBJECT_ARRAY = re.compile(rb"\x93NUMPY.{4,300}?'descr':\s*'\|?O", re.DOTALL)
_LFS = re.compile(rb"version https?://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
_SAFETENSORS_HEADER = 8


def refuse_other_kinds(head: bytes, tail: bytes, size: int) -> None:
    """Refuse a file whose first bytes say that it is something else.

    Raises:
        InvalidModel: ``lfs_pointer``, ``pickle_refused``, ``program_refused`` or ``not_a_model``.
    """
    if _LFS.match(head):
        raise InvalidModel(
            "The file is a Git LFS pointer, not the model.",
            code="lfs_pointer",
            why="The repository was cloned without its large files.",
            fix="Run git lfs pull in the clone and send the file again.",
        )
    archive = kind_of_zip(head, tail)
    if archive == "pt2":
        raise _a_program()
    pickled = _pickled(head, archive)
    if pickled is not None:
        raise InvalidModel(
            f"The file is {pickled}.",
            code="pickle_refused",
            why="Reading a pickle runs whatever is in it, so the farm never does.",
            fix=_TORCH,
        )
    known = _ARCHIVES[archive] if archive is not None else _known(head, size)
    if known is not None:
        raise not_a_model(f"it is {known[0]}", known[1])


def _a_program() -> InvalidModel:
    return InvalidModel(
        "The file is an exported program of PyTorch (.pt2).",
        code="program_refused",
        why="Loading it can run code, and the farm has no sandbox in which it would: it takes "
        "models as ONNX only.",
        fix=_TORCH,
    )


def _pickled(head: bytes, archive: str | None) -> str | None:
    """Say what kind of pickle a file is; None if it is none."""
    if archive == "torchscript":
        return "a TorchScript archive, which holds code and Python pickles"
    if archive == "pickle":
        return "a ZIP archive of Python pickles, as PyTorch's .pt, .pth, .ckpt and .bin are"
    if _OBJECT_ARRAY.match(head):
        return "a NumPy array of Python objects, which are pickled"
    if _PICKLE.match(head):
        return "a Python pickle, as PyTorch's .pt, .pth and .ckpt are"
    if _PACKED_PICKLE.match(head):
        return "a packed Python pickle, as joblib writes"
    return None


def _known(head: bytes, size: int) -> tuple[str, str] | None:
    for at, magic, kind, fix in _MAGICS:
        if head[at : at + len(magic)] == magic:
            return kind, fix
    if _is_safetensors(head, size):
        return "a safetensors file: weights without a graph", _WEIGHTS
    return next(((kind, fix) for begins, kind, fix in _BEGINNINGS if begins.match(head)), None)


def _is_safetensors(head: bytes, size: int) -> bool:
    """Tell by its header: the length of a JSON object, then the object."""
    if len(head) <= _SAFETENSORS_HEADER:
        return False
    (length,) = struct.unpack_from("<Q", head)
    fits = len(b"{}") <= length <= size - _SAFETENSORS_HEADER
    return bool(fits and head[_SAFETENSORS_HEADER : _SAFETENSORS_HEADER + 1] == b"{")
