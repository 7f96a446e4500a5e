"""A model on this machine: the ``.onnx`` file and the external data beside it.

Its digest is the farm's own, so the farm can be asked whether it has the model before a byte is
sent. A file outside the model's folder is never sent, whatever the model file names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import InvalidModel
from enginefarm.model_file import ModelScan, check_external, scan_model

MODEL_FILE = "model.onnx"
_CHUNK = 1 << 20
Hashed = Callable[[int, int], None]
"""Called with the bytes hashed so far and the bytes in all."""


@dataclass(frozen=True)
class LocalFile:
    """A file, the name it has in the model, its digest and its size."""

    name: str
    path: Path
    digest: str
    size: int


@dataclass(frozen=True)
class LocalModel:
    """A model file and its external data, scanned and hashed."""

    name: str
    digest: str
    main: LocalFile
    external: tuple[LocalFile, ...]

    @property
    def size(self) -> int:
        """How many bytes all of its files have."""
        return self.main.size + sum(file.size for file in self.external)


def read_local_model(path: Path, hashed: Hashed | None = None) -> LocalModel:
    """Scan and hash a model; ``hashed`` is told how far that is.

    Raises:
        InvalidModel: the file is no model, or its external data is missing, short or elsewhere.
    """
    require_model_file(path)
    beside = files_beside(path, scan_model(path))
    counter = _Counter(hashed, sum(file.stat().st_size for file in (path, *beside.values())))
    main = counter.hashed(MODEL_FILE, path)
    external = tuple(counter.hashed(name, file) for name, file in beside.items())
    listing = [
        {"digest": file.digest, "name": file.name, "size": file.size}
        for file in sorted((main, *external), key=lambda file: file.name)
    ]
    return LocalModel(
        name=path.stem,
        digest=digest_of(canonical_json({"files": listing})),
        main=main,
        external=external,
    )


def files_beside(path: Path, scan: ModelScan) -> dict[str, Path]:
    """Return the files of a model's external data, by the names that it gives them.

    Raises:
        InvalidModel: they are missing, short or elsewhere, as :func:`check_external` says; a link
            leads out of the model's folder (code ``external_path_escapes``).
    """
    locations = sorted({reference.location for reference in scan.external})
    beside = {
        location: path.parent / location
        for location in locations
        if Path(location).name == location and (path.parent / location).is_file()
    }
    check_external(scan, {name: file.stat().st_size for name, file in beside.items()})
    for name, file in beside.items():
        _require_inside(name, file, path.parent)
    return beside


def require_model_file(path: Path) -> None:
    """Refuse a model that is not there.

    Raises:
        InvalidModel: ``model_missing``.
    """
    if not path.is_file():
        raise InvalidModel(
            f"There is no model file {path}.",
            code="model_missing",
            why="It does not exist." if not path.exists() else "It is not a file.",
            fix="Name an .onnx file, or the sha256: digest of a model that the farm has.",
        )


class _Counter:
    """Hashes files and tells how much of all of them is done."""

    def __init__(self, told: Hashed | None, total: int) -> None:
        self._told, self._total, self._done = told, total, 0

    def hashed(self, name: str, path: Path) -> LocalFile:
        hasher, size = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                hasher.update(chunk)
                size += len(chunk)
                self._done += len(chunk)
                if self._told is not None:
                    self._told(self._done, self._total)
        return LocalFile(name, path, f"sha256:{hasher.hexdigest()}", size)


def _require_inside(name: str, file: Path, folder: Path) -> None:
    if not file.is_symlink() or file.resolve().is_relative_to(folder.resolve()):
        return
    raise InvalidModel(
        f"The external data {name!r} is a link to {file.resolve()}.",
        code="external_path_escapes",
        why="A model may name only files of its own folder, or it could send any file of yours.",
        fix="Copy the file itself into the model's folder.",
    )
