"""Tell by the names of its members what a ZIP archive is that was sent as a model.

Names stand in the archive's beginning and again in its directory at the end; nothing is unpacked.
"""

from __future__ import annotations

import re

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PT2 = re.compile(rb"archive_format|models/\w[\w.-]*\.json|serialized_exported_program\.json")
_TORCHSCRIPT = re.compile(rb"constants\.pkl")
_PICKLE = re.compile(rb"(?:^|[/\w.-])data\.pkl|\.pickle|\.pkl")
_KERAS = re.compile(rb"model\.weights\.h5")
_COREML = re.compile(rb"com\.apple\.CoreML|\.mlmodel|\.mlpackage")
_SAVED_MODEL = re.compile(rb"saved_model\.pb")
_NPY = re.compile(rb"\.npyPK|\.npy(?:\x01|[^\w.])")
_ONNX = re.compile(rb"\.onnx")


def kind_of_zip(head: bytes, tail: bytes) -> str | None:
    """Return the kind of a ZIP archive; None if it is none.

    One of ``pt2``, ``torchscript``, ``pickle``, ``keras``, ``coreml``, ``saved_model``, ``npz``,
    ``onnx`` and ``zip``.
    """
    if not head.startswith(_ZIP):
        return None
    return next(
        (
            kind
            for kind, pattern in _KINDS
            if any(pattern.search(part) is not None for part in (head, tail))
        ),
        "zip",
    )


# In this order: an exported program may hold pickles, and any of them an .onnx file.
_KINDS = (
    ("pt2", _PT2),
    ("torchscript", _TORCHSCRIPT),
    ("pickle", _PICKLE),
    ("keras", _KERAS),
    ("coreml", _COREML),
    ("saved_model", _SAVED_MODEL),
    ("npz", _NPY),
    ("onnx", _ONNX),
)
