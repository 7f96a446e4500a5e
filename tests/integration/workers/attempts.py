"""What the tests of an attempt share: the recipe of its job, and whether it cleared up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.messages import BackendDescription

Backends = dict[str, BackendDescription]
PROFILES = [{"x": {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}}]


def recipe(backends: Backends, name: str = "onnxruntime", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """Return a recipe for a backend in the version that is here."""
    return {"backend_version": backends[name].version, "profiles": PROFILES, **more}


def empty(folder: Path) -> bool:
    """Tell whether nothing is left in a folder."""
    return not list(folder.iterdir())
