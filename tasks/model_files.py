"""Which files make a model: the one ``.onnx`` file, its external data, and under which names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginefarm.counted import counted
from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import InvalidModel, InvalidRequest
from enginefarm.manifest import safe_file_name
from enginefarm.nearest import did_you_mean
from intake.findings import ModelFound

MODEL_FILE = "model.onnx"
_RESERVED = {MODEL_FILE, "model.plan", "dataset.npz"}


def main_of(names: Sequence[str]) -> int:
    """Return which file is the model's own: the one ``.onnx`` file, else the only file.

    Raises:
        InvalidRequest: ``one_model_file``; ``bad_file_name`` for a name that external data cannot
            have.
    """
    found = [at for at, name in enumerate(names) if name.lower().endswith(".onnx")]
    if not found and len(names) == 1:
        found = [0]
    if len(found) != 1:
        raise InvalidRequest(
            f"Of {counted(len(names), 'file')}, {counted(len(found), 'ends', 'end')} in .onnx.",
            code="one_model_file",
            why="A model is one .onnx file; the other files are its external data.",
            fix="Send exactly one .onnx file in a request.",
        )
    for at, name in enumerate(names):
        if at != found[0]:
            _require_own_name(name)
    return found[0]


def _require_own_name(name: str) -> None:
    """External data keeps its name on every node, so the name must suit a shell and not be ours."""
    try:
        why = "The farm uses this name itself." if safe_file_name(name) in _RESERVED else ""
    except ValueError:
        why = "Only letters, digits, dots, dashes and underscores can be in it."
    if why:
        raise InvalidRequest(
            f"External data cannot be called {name[:80]!r}.",
            code="bad_file_name",
            why=why,
            fix="Save the model again with another name for its external data.",
        )


def require_referenced(found: ModelFound, names: Sequence[str]) -> None:
    """Refuse a file of external data that the model does not name.

    Raises:
        InvalidModel: code ``file_not_referenced``.
    """
    known = {reference.location for reference in found.external}
    for name in names:
        if name not in known:
            raise InvalidModel(
                f"The model does not refer to the file {name!r}.",
                code="file_not_referenced",
                why="Every file that is sent becomes a part of the model.",
                fix=did_you_mean(name, known) if known else "Send the .onnx file alone.",
            )


def listing(files: Sequence[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """Return a model's files as its row lists them, from names, digests and sizes."""
    return [{"digest": digest, "name": name, "size": size} for name, digest, size in sorted(files)]


def digest_of_model(listed: list[dict[str, Any]]) -> str:
    """Return the digest of a model: that of the canonical list of its files."""
    return digest_of(canonical_json({"files": listed}))


def interface(found: ModelFound) -> dict[str, Any]:
    """Return what a model's row says of what goes in and out."""
    return {
        "inputs": [tensor.model_dump(mode="json") for tensor in found.inputs],
        "outputs": [tensor.model_dump(mode="json") for tensor in found.outputs],
        "opsets": dict(found.opsets),
        "node_count": found.node_count,
    }
