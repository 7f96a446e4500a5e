"""What the tests of the words share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm.errors import InvalidModel
from enginefarm.model_file import ModelScan, scan_model

Scan = Callable[[bytes], ModelScan]
Refused = Callable[[bytes], InvalidModel]


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    """Return a way to scan bytes as a file."""

    def _scan(data: bytes) -> ModelScan:
        path = tmp_path / "model.onnx"
        path.write_bytes(data)
        return scan_model(path)

    return _scan


@pytest.fixture
def refused(scan: Scan) -> Refused:
    """Return a way to scan bytes that must be refused, with what, why and what to do."""

    def _refused(data: bytes) -> InvalidModel:
        with pytest.raises(InvalidModel) as caught:
            scan(data)
        error = caught.value
        assert error.message
        assert error.fix
        assert len(str(error)) < 2000
        return error

    return _refused
