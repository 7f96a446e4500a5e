"""Tell by its first bytes what a file is that is no ONNX model, and say what to do with it."""

from __future__ import annotations

from enginefarm.errors import InvalidModel

_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "a gzip archive", "Unpack it and upload the .onnx file inside."),
    (b"\x89HDF", "an HDF5 (Keras) file", "Convert it with tf2onnx."),
    (b"<!DO", "an HTML page", "The download went wrong; fetch the model again."),
    (b"<htm", "an HTML page", "The download went wrong; fetch the model again."),
    (b"ftrt", "a TensorRT engine", "Upload the ONNX model it was built from; engines are code."),
    (b"vtrt", "a TensorRT-RTX engine", "Upload the ONNX model it was built from."),
    (b"ORTM", "an ONNX Runtime .ort file", "Upload the .onnx file it was made from."),
    (b"GGUF", "a GGUF file", "Export the model to ONNX."),
    (b"\x7fELF", "a program", "Upload an ONNX model."),
)
_PICKLE = tuple(bytes([0x80, version]) for version in range(2, 6))
_LFS = b"version https://git-lfs"
_TFLITE_MAGIC, _TFLITE_AT = b"TFL3", 4
_ZIP = b"PK\x03\x04"
_SAFETENSORS_AT = 8


def refuse_other_kinds(head: bytes) -> None:
    """Refuse a file whose first bytes say that it is something else.

    Raises:
        InvalidModel: ``lfs_pointer``, ``pickle_refused`` or ``not_a_model``.
    """
    if head.startswith(_LFS):
        raise InvalidModel(
            "The file is a Git LFS pointer, not the model.",
            code="lfs_pointer",
            why="The repository was cloned without its large files.",
            fix="Run git lfs pull and upload the file again.",
        )
    if head.startswith(_PICKLE) or (head.startswith(_ZIP) and b"pkl" in head):
        raise InvalidModel(
            "The file is a pickle (a PyTorch .pt, .pth or .pkl), which is a program.",
            code="pickle_refused",
            why="Loading a pickle runs whatever is in it, so the farm does not.",
            fix="Export the model to ONNX with torch.onnx.export and upload that.",
        )
    for magic, kind, fix in _KINDS:
        if head.startswith(magic):
            raise _not_onnx(kind, fix)
    if head[_TFLITE_AT : _TFLITE_AT + 4] == _TFLITE_MAGIC:
        raise _not_onnx("a TensorFlow Lite model", "Convert it with tf2onnx.")
    if head.startswith(_ZIP):
        raise _not_onnx("a zip archive", "Unpack it and upload the files inside.")
    if head[_SAFETENSORS_AT : _SAFETENSORS_AT + 2] == b'{"':
        raise _not_onnx("a safetensors file", "Weights alone are no model; export to ONNX.")


def _not_onnx(kind: str, fix: str) -> InvalidModel:
    return InvalidModel(
        "The file is not an ONNX model.", code="not_a_model", why=f"It is {kind}.", fix=fix
    )
