"""The passes by their names. What each is for, and its version, is in ``enginefarm.repairs``."""

from __future__ import annotations

from workers.repair.base import Pass
from workers.repair.passes import unique_dimensions

PASSES: dict[str, Pass] = {
    "unique-dimensions": unique_dimensions.run,
}
