"""The short name of a GPU model, its SKU, as a target or an option names it: ``l4``. Pure.

An architecture is what an engine's code is for; a SKU is the product that it was timed on. Two SKUs
of one architecture run the same engine at speeds of their own.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import StringConstraints

_VENDOR = re.compile(r"^\s*nvidia\b\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"[^a-z0-9]+")
SKU_SHAPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
EVERY = "every"
"""Stands for all SKUs that live nodes have."""
Sku = Annotated[str, StringConstraints(max_length=63, pattern=rf"^{SKU_SHAPE.pattern}$")]


def sku_of(name: str) -> str:
    """Return the SKU of a device, from the name that NVML gives.

    ``NVIDIA H200`` is ``h200``, ``NVIDIA A100-SXM4-80GB`` is ``a100-sxm4-80gb``, and an instance
    ``NVIDIA H200 MIG 1g.18gb`` is ``h200-mig-1g-18gb``: a slice is not the whole device.
    """
    return _BETWEEN.sub("-", _VENDOR.sub("", name).lower()).strip("-")
