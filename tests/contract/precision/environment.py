"""Where the environment of a tool that has its own is, for tests that need it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PYTHON = Path(sys.prefix) / "modelopt" / "bin" / "python"
"""What `make modelopt` sets up, and `make soak` with it."""


def modelopt_python() -> Path:
    """Return the python with ModelOpt; skip the test, by name, where it is not set up."""
    if not PYTHON.exists():
        pytest.skip("ModelOpt is not set up here: `make modelopt`")
    return PYTHON
