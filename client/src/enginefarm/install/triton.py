"""Show an artifact as a model of a Triton model repository: ``NAME/config.pbtxt`` and ``NAME/1/``.

The version folder is an install folder like any other, so it can be verified offline; what Triton
needs beside it is derived from the signed config. Only what Triton has a backend for is shown so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from enginefarm.digest import hex_of
from enginefarm.errors import InvalidRequest
from enginefarm.install.files import sync_folder, write_new
from enginefarm.install.folder import Installed
from enginefarm.manifest import EngineConfig
from enginefarm.tensor import TensorView

VERSION, CONFIG_FILE = "1", "config.pbtxt"
_PLATFORMS = {"onnxruntime": "onnxruntime_onnx", "tensorrt": "tensorrt_plan"}
_TYPES = {
    "bool": "BOOL",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "string": "STRING",
} | {
    f"{kind}{bits}": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
_MARK = "# Written by enginefarm"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def model_folder(repository: Path, model_name: str) -> Path:
    """Return where a model lies in a repository: the folder's name is its name for Triton.

    Of a name that is a path only its last part counts, without ``.onnx``.
    """
    last = PurePosixPath(model_name.replace("\\", "/")).name.removesuffix(".onnx")
    return repository / (_UNSAFE.sub("_", last).strip("_") or "model")


def require_triton(config: EngineConfig) -> None:
    """Refuse an engine that Triton has no backend for.

    Raises:
        InvalidRequest: code ``layout_refused``.
    """
    if config.backend not in _PLATFORMS:
        raise _refused(
            f"Triton has no backend for {config.backend}.",
            f"It runs {' and '.join(sorted(_PLATFORMS))} engines; {config.backend} is no platform "
            "of its.",
            "Pull it without --layout triton, or build the model for another backend.",
        )
    for row in _rows(config.inputs) + _rows(config.outputs):
        if row.dtype not in _TYPES:
            raise _refused(
                f"Triton has no data type for {row.name[:80]!r}, which is {row.dtype}.",
                "A request could not carry it.",
                "Export the model with inputs and outputs of other types.",
            )


def config_text(config: EngineConfig, digest: str) -> str:
    """Return the ``config.pbtxt`` of an engine.

    Dimensions are whole, the batch among them, so ``max_batch_size`` is 0.
    """
    kind = "KIND_CPU" if config.arch == "cpu" else "KIND_GPU"
    return "\n".join(
        [
            f"{_MARK} from {digest}; without this line it is yours and is kept.",
            f"platform: {_quoted(_PLATFORMS[config.backend])}",
            f"default_model_filename: {_quoted(config.engine_file)}",
            "max_batch_size: 0",
            *(_tensor("input", row) for row in _rows(config.inputs)),
            *(_tensor("output", row) for row in _rows(config.outputs)),
            f"instance_group [ {{ kind: {kind} }} ]",
            "",
        ]
    )


def write_config(installed: Installed) -> bool:
    """Write the config beside a version folder, unless one is there that is a person's own.

    Returns whether it was written. The old one is replaced in one step.
    """
    path = installed.folder.parent / CONFIG_FILE
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
        return False
    digest = installed.artifact.digest
    new = path.with_name(f".{CONFIG_FILE}.{hex_of(digest)[:12]}.{os.getpid()}")
    try:
        write_new(new, config_text(installed.config, digest).encode())
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def _rows(rows: Iterable[Mapping[str, object]]) -> list[TensorView]:
    return [TensorView.model_validate(row) for row in rows]


def _tensor(what: str, row: TensorView) -> str:
    dims = [dim if isinstance(dim, int) else -1 for dim in row.shape]
    told = f"name: {_quoted(row.name)} data_type: TYPE_{_TYPES[row.dtype]} dims: {dims or [1]}"
    # Triton knows no tensor without dimensions: a request carries one number.
    return f"{what} [ {{ {told}{'' if dims else ' reshape: { shape: [] }'} }} ]"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _refused(message: str, why: str, fix: str) -> InvalidRequest:
    return InvalidRequest(message, code="layout_refused", why=why, fix=fix)
