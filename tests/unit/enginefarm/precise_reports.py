"""Reports of engines in another precision, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from enginefarm.report import BuildReport
from tests.unit.enginefarm.reports import output, report

TWIN = {"precision": "as-is", "why": "without int8 it would be built as it came"}
SPEED: dict[str, Any] = {
    "shapes": {"x": [1, 4]},
    "twin_p50_ms": 3.0,
    "engine_p50_ms": 2.0,
    "twin_runs": 90,
    "engine_runs": 120,
    "ratios": [1.5] * 15,
    "speedup": 1.5,
    "low": 1.4,
    "high": 1.6,
    "confidence": 0.9926,
    "faster": True,
}
VERDICT: dict[str, Any] = {
    "verdict": "accept",
    "reason": "1.5 times as fast as the model as it came",
    "held_back": False,
    "on_slower": "quarantine",
    "twin": TWIN,
    "speed": [SPEED],
    "floor": {"of": "engine", "output": "y", "least": 0.99, "value": 0.999},
}
PRECISION: dict[str, Any] = {
    "recipe": {"kind": "int8", "tool": "onnxruntime", "tool_version": "1.32", "method": "minmax"},
    "nodes": 20,
    "changed": 17,
    "kept": [{"node": "head", "operator": "Conv", "why": "it was excluded"}],
    "kept_count": 3,
    "model_accuracy": {
        "reference": "the model as it came",
        "data": "dataset sha256:1",
        "synthetic": False,
        "samples": 40,
        "outputs": [output(cosine=0.9912, snr_db=17.0)],
    },
    "model_bytes": 100,
    "seconds": 1.0,
}


def precise(verdict: dict[str, Any] | None = None, **changed: Any) -> BuildReport:  # noqa: ANN401
    """Return such a report; ``changed``: fields of its precision."""
    told = VERDICT if verdict is None else verdict
    return report(precision=PRECISION | changed, precision_verdict=told)
