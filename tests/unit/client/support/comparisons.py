"""Comparisons as the farm sends them."""

from __future__ import annotations

from typing import Any

from enginefarm.comparison_report import ComparisonReport
from enginefarm.comparison_views import ComparisonView
from tests.unit.client.support.views import ARTIFACT, AT, MODEL

OTHER = f"sha256:{'b' * 64}"
ID = "bld_cmp1"


def _times(ms: float) -> dict[str, Any]:
    names = ("min", "max", "mean", "p50", "p90", "p95", "p99")
    return dict.fromkeys(names, ms) | {"count": 99, "std": 0.0, "cov": 0.0}


def _row(shape: int, speedup: float, verdict: str) -> dict[str, Any]:
    return {
        "shapes": {"x": [shape, 4]},
        "batch": shape,
        "first": {"end_to_end_ms": _times(2.0), "runs_ms": [2.0, 2.0]},
        "second": {"end_to_end_ms": _times(2.0 / speedup), "runs_ms": [2.0 / speedup] * 2},
        "ratios": [speedup] * 31,
        "trust": {"exclusive": True, "exclusive_proof": "by the test"},
        "speedup": speedup,
        "low": speedup - 0.02,
        "high": speedup + 0.02,
        "confidence": 0.992,
        "p_value": 1e-9,
        "second_takes_longer": 0.0,
        "verdict": verdict,
        "why": f"{speedup:g} times as fast",
    }


def _side(artifact: str, precision: str) -> dict[str, Any]:
    return {
        "artifact": artifact,
        "engine": f"sha256:{'e' * 64}",
        "engine_bytes": 1000,
        "model": MODEL,
        "model_name": "rec",
        "build": "bld_1",
        "backend_version": "1.2.3",
        "precision": precision,
    }


def report(verdict: str = "faster", speedup: float = 1.25, **more: Any) -> ComparisonReport:  # noqa: ANN401
    """Return the report of a comparison at two shapes."""
    told = {
        "target": "onnxruntime@cpu",
        "backend_version": "1.2.4",
        "first": _side(ARTIFACT, "as-is"),
        "second": _side(OTHER, "int8"),
        "rows": [_row(1, speedup, verdict), _row(8, 1.0, "alike")],
        "verdict": verdict,
        "reason": f"{speedup:g} times as fast",
        "options": {},
        "data": "synthetic, seed 0",
        "threads": 4,
        "build": ID,
    }
    return ComparisonReport.model_validate(told | more)


def comparison(state: str = "succeeded", **more: Any) -> ComparisonView:  # noqa: ANN401
    """Return a comparison, by default one that is over."""
    over = state == "succeeded"
    told: dict[str, Any] = {
        "id": ID,
        "state": state,
        "target": "onnxruntime@cpu",
        "first": ARTIFACT,
        "second": OTHER,
        "verdict": "faster" if over else None,
        "cached": False,
        "created_at": AT,
        "finished_at": AT if over else None,
        "report": report() if over else None,
        "signed": over,
    }
    return ComparisonView.model_validate(told | more)
