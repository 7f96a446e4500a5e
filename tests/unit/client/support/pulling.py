"""What tests of pulling share: a large artifact, and the call that installs one."""

from __future__ import annotations

from collections.abc import Callable

from enginefarm.digest import digest_of
from enginefarm.install import Installed

BIG = {"model.onnx": bytes(range(256)) * 16_384, "report.json": b"{}"}
Fetch = Callable[..., Installed]
"""Install an artifact by its digest, in a folder of the test's own; a second argument names it."""


def blob_path(data: bytes) -> str:
    """Return the path at which a farm has these bytes."""
    return f"/v1/blobs/{digest_of(data)}"
