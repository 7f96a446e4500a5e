"""What a node without a machine says that its stages found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from enginefarm.profile import measured_at
from enginefarm.spec import Profile
from enginefarm.state import Stage

VERSION = "1.2.3"
_PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])


def repair_facts(*, changed: bool) -> dict[str, Any]:
    passed = {
        "name": "unique-dimensions",
        "version": 1,
        "exactness": "structural",
        "outcome": "applied" if changed else "nothing-to-do",
        "why": "as a test wants it",
    }
    report = {"changed": changed, "nodes_before": 2, "nodes_after": 1, "seconds": 0.5}
    facts: dict[str, Any] = {"repair": report | {"passes": [passed]}, "versions": {}}
    tensor = {"name": "x", "dtype": "float32", "shape": [1, 4]}
    interface = {"inputs": [tensor], "outputs": [tensor | {"name": "y"}]}
    return facts | ({"interface": interface} if changed else {})


def precision_facts(stage: Stage, *, labels: list[str]) -> dict[str, Any]:
    kind, tool = ("int8", "onnxruntime") if stage is Stage.CALIBRATE else ("fp16", "enginefarm")
    report = {
        "recipe": {"kind": kind, "tool": tool, "tool_version": VERSION},
        "nodes": 2,
        "changed": 1,
        "labels": labels,
        "model_accuracy": accuracy(0.998),
        "model_bytes": 30,
        "seconds": 0.5,
    }
    tensor = {"name": "x", "dtype": "float32", "shape": [1, 4]}
    interface = {"inputs": [tensor], "outputs": [tensor | {"name": "y"}]}
    return {"precision": report, "interface": interface, "versions": {"onnxruntime": VERSION}}


def trust(tainted: list[str]) -> dict[str, Any]:
    """Return the record of a measurement on a device that a job has taken."""
    return {"exclusive": not tainted, "exclusive_proof": "as a test has it", "tainted": tainted}


def paired_facts(speedup: float, tainted: list[str]) -> dict[str, Any]:
    """Return what a node measures of an engine that is so many times as fast as its twin."""
    row = {
        "shapes": {"x": [1, 4]},
        "twin_p50_ms": 1.5 * speedup,
        "engine_p50_ms": 1.5,
        "twin_runs": 150,
        "engine_runs": 150,
        "ratios": [speedup] * 15,
        "trust": trust(tainted),
    }
    return {"comparison": [row]}


def compared_facts(speedup: float, *tainted: str) -> dict[str, Any]:
    """Return what a node measures of two engines, the second so many times as fast."""
    runs = [1.5 * speedup] * 4, [1.5] * 4
    sides = [{"end_to_end_ms": _flat(row[0]), "runs_ms": row} for row in runs]
    row = {
        "shapes": {"x": [1, 4]},
        "batch": 1,
        "first": sides[0],
        "second": sides[1],
        "ratios": [speedup] * 15,
        "trust": {"exclusive": None, "exclusive_proof": "by the test", "tainted": list(tainted)},
    }
    return {"compared": [row], "data": "synthetic, seed 0", "threads": 1, "versions": {}}


def at_each(recipe: Mapping[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts of one shape as a node tells them of every place that a recipe asks for."""
    profiles = _PROFILES.validate_python(recipe.get("profiles") or [])
    places = measured_at(profiles, (recipe.get("options") or {}).get("shapes") or [])
    if not places:
        return facts
    shapes = [{name: row.opt for name, row in place.items()} for place in places]
    many = {
        what: [facts[what][0] | {"shapes": each} for each in shapes]
        for what in ("latency", "comparison", "compared")
        if facts.get(what)
    }
    return facts | many


def _flat(ms: float) -> dict[str, Any]:
    names = ("min", "max", "mean", "p50", "p90", "p95", "p99")
    return dict.fromkeys(names, ms) | {"count": 4, "std": 0.0, "cov": 0.0}


LATENCY = {
    "shapes": {"x": [1, 4]},
    "batch": 1,
    "end_to_end_ms": {
        "count": 50,
        "min": 1.0,
        "max": 2.0,
        "mean": 1.5,
        "std": 0.1,
        "cov": 0.07,
        "p50": 1.5,
        "p90": 1.8,
        "p95": 1.9,
        "p99": 2.0,
    },
    "throughput_qps": 640.0,
    "warmup_iterations": 10,
    "warmup_ms": 200.0,
    "stable": True,
    "load_ms": 12.0,
    "peak_memory_bytes": 1 << 20,
    "threads": 1,
}


def accuracy(cosine: float) -> dict[str, Any]:
    row = {
        "output": "y",
        "dtype_reference": "float32",
        "dtype_engine": "float32",
        "max_abs_error": 0.001,
        "mean_abs_error": 0.0001,
        "max_rel_error": 0.001,
        "mean_rel_error": 0.0001,
        "cosine": cosine,
        "snr_db": 60.0,
        "exact": False,
        "top1_agreement": None,
        "nonfinite_engine": 0,
        "nonfinite_reference": 0,
    }
    return {
        "reference": "onnxruntime, fp32",
        "data": "synthetic, seed 0",
        "synthetic": True,
        "samples": 8,
        "outputs": [row],
    }
