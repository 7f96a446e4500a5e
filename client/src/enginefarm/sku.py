"""The short name of a GPU model, its SKU, as a target or an option names it: ``l4``. Pure.

An architecture is what an engine's code is for; a SKU is the product that it was timed on. Two SKUs
of one architecture run the same engine at speeds of their own.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, StringConstraints

_VENDOR = re.compile(r"^\s*nvidia\b\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"[^a-z0-9]+")
SKU_SHAPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_SKU = 64
EVERY = "every"
"""Stands for all SKUs that live nodes have."""
MOST_SKUS = 16
"""On how many SKUs one build is measured at most."""


def sku_of(name: str) -> str:
    """Return the SKU of a device, from the name that NVML gives.

    ``NVIDIA H200`` is ``h200``, ``NVIDIA A100-SXM4-80GB`` is ``a100-sxm4-80gb``, and an instance
    ``NVIDIA H200 MIG 1g.18gb`` is ``h200-mig-1g-18gb``: a slice is not the whole device.
    """
    return _BETWEEN.sub("-", _VENDOR.sub("", name).lower()).strip("-")


def is_sku(text: str) -> bool:
    """Tell whether a text is the short name of a device, as an option or a target can say it."""
    return 0 < len(text) <= LONGEST_SKU and sku_of(text) == text


def _as_written(value: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
    """Refuse what is no SKU with what should stand in its place."""
    if not isinstance(value, str) or is_sku(value):
        return value
    meant = sku_of(value[: 2 * LONGEST_SKU])[:LONGEST_SKU].strip("-")
    message = f"{value[:40]!r} is not the name of a SKU: write {meant or 'one like l4'}"
    raise ValueError(message)


Sku = Annotated[
    str,
    StringConstraints(max_length=LONGEST_SKU, pattern=rf"^{SKU_SHAPE.pattern}$"),
    BeforeValidator(_as_written),
]
