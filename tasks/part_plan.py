"""How files become parts: how large, how many, where they lie; and what can be declared at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from enginefarm.errors import InvalidModel, InvalidRequest, TooLarge
from enginefarm.upload import MAX_PARTS, UploadSpec
from tasks.model_files import main_of

LARGEST_MESSAGE = (2 << 30) - 1
"""The most bytes that any reader of protobuf takes as one message."""
_MIB = 1 << 20


@dataclass(frozen=True)
class UploadLimits:
    """The operator's numbers; ``direct`` lets parts go straight to the bucket."""

    part_bytes: int = 64 * _MIB
    max_bytes: int = 256 << 30
    max_files: int = 1024
    url_seconds: int = 3600
    direct: bool = True

    def part_of(self, size: int) -> int:
        """Return how large the parts of a file are, so that S3 takes as many."""
        least = -(-size // MAX_PARTS)
        return max(self.part_bytes, -(-least // _MIB) * _MIB)

    @property
    def largest_part(self) -> int:
        """How large a part can be at most."""
        return self.part_of(self.max_bytes)


def place(upload_id: str, file: int) -> str:
    """Return where a file's parts are put together."""
    return f"{folder(upload_id)}{file}"


def folder(upload_id: str) -> str:
    """Return below what everything of an upload lies."""
    return f"uploads/{upload_id}/"


def part_count(file: dict[str, Any]) -> int:
    """Return how many parts a declared file has."""
    return -(-int(file["size"]) // int(file["part_bytes"]))


def part_size(file: dict[str, Any], number: int) -> int:
    """Return how many bytes a part has; only the last one is shorter than the others."""
    begin = (number - 1) * int(file["part_bytes"])
    return min(int(file["part_bytes"]), int(file["size"]) - begin)


def require_fit(spec: UploadSpec, limits: UploadLimits) -> None:
    """Refuse a declaration that no upload could fulfil.

    Raises:
        InvalidRequest: ``one_model_file``, ``bad_file_name``.
        InvalidModel: ``model_file_too_large``.
        TooLarge: there are more files or bytes than the operator allows.
    """
    names = [file.name for file in spec.files]
    if len(names) > limits.max_files:
        raise TooLarge(
            f"The model has {len(names)} files; {limits.max_files} are taken.",
            fix="Save its external data in fewer files.",
            limit_files=limits.max_files,
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidRequest(
            f"Two files are called {twice[:80]!r}.",
            code="bad_file_name",
            fix="Declare each file once, by the name that the model gives it.",
        )
    main = spec.files[main_of(names)]
    if main.size > LARGEST_MESSAGE:
        raise InvalidModel(
            f"The .onnx file has {main.size} bytes.",
            code="model_file_too_large",
            why="Nothing reads a protobuf message above 2 GiB.",
            fix="Save the weights as external data beside it: onnx.save_model(…, "
            "save_as_external_data=True).",
            limit_bytes=LARGEST_MESSAGE,
        )
    size = sum(file.size for file in spec.files)
    if size > limits.max_bytes:
        raise TooLarge(
            f"The model has {size} bytes; {limits.max_bytes} are taken.",
            fix="The operator sets ENGINEFARM_MAX_UPLOAD_BYTES.",
            limit_bytes=limits.max_bytes,
        )
