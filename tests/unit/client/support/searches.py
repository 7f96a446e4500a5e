"""Searches as the farm sends them."""

from __future__ import annotations

from typing import Any

from enginefarm.search import SearchSpec
from enginefarm.search_views import CandidateView, SearchView
from tests.unit.client.support.views import ARTIFACT, AT, MODEL

DATA = f"sha256:{'7' * 64}"
TARGET = "onnxruntime@cpu"


def outcome(cosine: float | None, p99: float | None = 2.5, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    told = {
        "accuracy_of": "engine",
        "cosine": cosine,
        "latency_p99_ms": p99,
        "engine_bytes": 2_000_000,
        "memory_bytes": 50_000_000,
        "met": True,
        "artifact": ARTIFACT,
        "artifact_state": "published",
    }
    return told | more


def candidate(number: int, kind: str = "int8", **more: Any) -> CandidateView:  # noqa: ANN401
    told = {
        "number": number,
        "why": "all in int8, ranges by minmax",
        "precision": {"kind": kind, "exclude": ["a", "b"] if kind == "int8" else []},
        "build": f"bld_{number}",
        "build_state": "succeeded",
    }
    return CandidateView.model_validate(told | more)


def search(state: str = "succeeded", **more: Any) -> SearchView:  # noqa: ANN401 - any field
    candidates = [
        candidate(1, "as-is", outcome=outcome(None, 5.0, accuracy_of="original")),
        candidate(2, outcome=outcome(0.9931), on_front=True),
        candidate(3, "fp16", outcome={"failure": FAILURE}, build_state="failed"),
    ]
    told = {
        "id": "srch_1",
        "state": state,
        "model": MODEL,
        "model_name": "rec",
        "target": TARGET,
        "tried": len(candidates),
        "budget": 12,
        "chosen": 2,
        "artifact": ARTIFACT,
        "verdict": "Candidate 2 is the best.",
        "created_at": AT,
        "finished_at": AT,
        "spec": SearchSpec.model_validate({"build": {"model": MODEL, "targets": [TARGET]}}),
        "notes": ["tried are the model as it came, int8, fp16"],
        "candidates": candidates,
    }
    return SearchView.model_validate(told | more)


FAILURE = {"code": "precision_not_finite", "blame": "person", "message": "It gives NaN."}
