"""What a schedule chooses from: builds, mishaps, uploads, endings, loops."""

from __future__ import annotations

import hypothesis.strategies as st

from tests.integration.tasks.life.steps import FAULTS
from tests.integration.tasks.life.traps import ENDS
from tests.integration.tasks.life.world import GPU, GPUS, LATER, WINDOW_S
from tests.integration.tasks.scene import CPU

MOST_BUILDS = 8
REACHED = {
    "cached",
    "tried again",
    "build succeeded",
    "build cancelled",
    "artifact published",
    "logs removed",
    "models removed",
    "events removed",
    "settler followed",
    "measured on two",
}
SOME = st.integers(0, 30)
MISHAP = st.none() | st.tuples(st.integers(1, 7), st.sampled_from(sorted(ENDS)))
UPLOADS = st.sampled_from(["whole", "longer", "whole", "none", "whole", "wrong", "unasked"])
ENDINGS = st.sampled_from(["success", "node", "success", "back", *FAULTS, "cancelled", "success"])
LOOP = st.sampled_from(["settle", "publish", "reconcile", "settle", "publish"])
COMMITS = st.sampled_from([3, 2, 3, 4])
"""A loop's first commit finds what is due; the third or fourth is what it came for."""
GATED = {"gates": [{"metric": "cosine", "at_least": 0.99}]}
Spec = dict[str, object]
FIRST_SPECS: list[Spec] = [
    {"targets": [CPU]},
    {"targets": [CPU], **GATED},
    {"targets": [CPU, GPU], "wait_for_node": WINDOW_S},
    {"targets": [GPU], **GATED},
    {"targets": [CPU], "limits": {"pending_s": 50_000}},
    {"targets": [LATER], "wait_for_node": WINDOW_S},
    {"targets": [GPU], "measure_on": list(GPUS), "limits": {"pending_s": 50_000}},
    {"targets": [GPU], "measure_on": "every", "wait_for_node": WINDOW_S},
    {"targets": [CPU, GPU, LATER], "wait_for_node": WINDOW_S},
]
_OPTIONS: list[Spec] = [{}] + [
    {"options": {"compile": {"graph_optimization": level}}} for level in ("basic", "extended")
]
SPECS = st.builds(
    lambda *parts: parts[0] | parts[1], *map(st.sampled_from, (FIRST_SPECS, _OPTIONS))
)
