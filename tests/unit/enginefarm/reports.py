"""Reports as a farm writes them, for tests of what is made of them."""

from __future__ import annotations

import random
from typing import Any

from enginefarm.report import BuildReport

HOSTILE = "</svg><script>alert(1)</script>\"'&\x1b[2J\u202e"


def machine(**changed: object) -> dict[str, Any]:
    return {
        "hostname": "rack-1",
        "cpu": "EPYC",
        "cores": 8,
        "memory_bytes": 1 << 34,
        "device": "cpu",
    } | changed


def latency(middle: float = 2.0, seed: int = 0, **changed: object) -> dict[str, Any]:
    rng = random.Random(seed)  # noqa: S311 - no secret
    runs = [round(abs(rng.gauss(middle, middle / 50)), 6) for _ in range(200)]
    ordered = sorted(runs)
    return {
        "shapes": {"x": [1, 4]},
        "batch": 1,
        "end_to_end_ms": {
            "count": 200,
            "min": ordered[0],
            "max": ordered[-1],
            "mean": middle,
            "std": middle / 50,
            "cov": 0.02,
            "p50": ordered[100],
            "p90": ordered[180],
            "p95": ordered[190],
            "p99": ordered[198],
        },
        "throughput_qps": 500.0,
        "warmup_iterations": 10,
        "warmup_ms": 200.0,
        "stable": True,
        "load_ms": 3.0,
        "peak_memory_bytes": 1 << 20,
        "threads": 1,
        "histogram": {"edges": [1.0, 2.0, 3.0], "counts": [90, 110]},
        "over_time": [{"at_ms": 100.0 * n, "p50": middle, "max": middle * 2} for n in range(20)],
        "runs_ms": runs,
    } | changed


def output(name: str = "y", **changed: object) -> dict[str, Any]:
    return {
        "output": name,
        "dtype_reference": "float32",
        "dtype_engine": "float32",
        "max_abs_error": 0.01,
        "mean_abs_error": 0.001,
        "max_rel_error": None,
        "mean_rel_error": None,
        "cosine": 0.999,
        "cosine_worst": 0.99,
        "snr_db": 40.0,
        "psnr_db": 44.0,
        "exact": False,
        "top1_agreement": 0.98,
        "top5_agreement": 1.0,
        "nonfinite_engine": 0,
        "nonfinite_reference": 0,
        "elements": 100,
        "worst": [{"sample": 17, "max_abs_error": 0.01, "cosine": 0.99}],
        "zero_errors": 3,
        "errors": {"edges": [0.0001, 0.001, 0.01], "counts": [90, 7]},
    } | changed


def report(**changed: Any) -> BuildReport:  # noqa: ANN401 - any field of a report
    outputs = changed.pop("outputs", [output()])
    metric = changed.pop("metric", None)
    accuracy = {
        "reference": "the original",
        "data": "dataset sha256:1",
        "synthetic": False,
        "samples": 40,
        "outputs": outputs,
        "metric": metric,
        "notes": ["a note"],
    }
    whole: dict[str, Any] = {
        "target": "onnxruntime@cpu",
        "backend_version": "1.2.3",
        "model": "sha256:" + "a" * 64,
        "model_name": "doubler",
        "build": "bld_1",
        "recipe": {"key": "sha256:" + "c" * 64, "profiles": [], "options": {}},
        "measured": True,
        "compile": {"seconds": 1.5, "engine_bytes": 1000, "peak_memory_bytes": 1},
        "compile_machine": machine(),
        "measure_machine": machine(),
        "latency": [latency()],
        "accuracy": accuracy,
        "versions": {"onnxruntime": "1.2.3"},
    }
    return BuildReport.model_validate(whole | changed)


def hostile() -> BuildReport:
    """Return a report in which every text that a model or a node chooses means harm."""
    bad = HOSTILE
    verdict = {"gate": bad, "value": 0.5, "met": False, "reason": bad}
    finding = {"severity": "warning", "code": "x", "message": bad, "where": bad, "fix": bad}
    passed = {"name": bad, "version": 1, "exactness": "exact", "outcome": "applied", "why": bad}
    told = report(
        outputs=[output(bad), output("y")],
        metric={"name": "accuracy", "output": bad, "labels": bad, "reason": bad},
        model_name=bad,
        latency=[latency(shapes={bad: [1]}, notes=[bad])],
        measure_machine=machine(hostname=bad, cpu=bad),
        versions={bad: bad},
        gates=[verdict],
        findings=[finding],
        repair={
            "passes": [passed],
            "changed": True,
            "nodes_before": 2,
            "nodes_after": 1,
            "seconds": 0.1,
        },
    )
    assert told.accuracy is not None
    notes = told.accuracy.model_copy(update={"notes": [bad], "reference": bad})
    return told.model_copy(update={"accuracy": notes})
