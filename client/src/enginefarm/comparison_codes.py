"""The error codes of comparisons: why two artifacts cannot be measured side by side."""

from __future__ import annotations

from typing import Final

COMPARISON_CODES: Final[dict[str, str]] = {
    "comparison_by_build": "A build names two artifacts to compare.",
    "comparison_engine_gone": "The engine of an artifact that is to be compared is not kept.",
    "comparison_interface": "Two artifacts that are to be compared take or give different tensors.",
    "comparison_not_served": "No live node runs two engines of the target side by side.",
    "comparison_plugins": "Two artifacts to be compared need different plugins of one backend.",
    "comparison_revoked": "An artifact that is to be compared was revoked.",
    "comparison_shapes": "The second artifact was not built for the shapes of the first.",
    "comparison_target": "Two artifacts that are to be compared were built for different targets.",
    "comparison_versions": "No one version of the backend loads both artifacts.",
    "unknown_comparison": "The tenant has no such comparison.",
}
