"""Reports that were written long ago are still read, and say what they said."""

from __future__ import annotations

from typing import Any

from enginefarm.report import REPORT_SCHEMA, BuildReport

OUTPUT = {
    "output": "y",
    "dtype_reference": "float32",
    "dtype_engine": "float32",
    "max_abs_error": 0.1,
    "mean_abs_error": 0.01,
    "max_rel_error": None,
    "mean_rel_error": None,
    "cosine": 0.99,
    "snr_db": 40.0,
    "exact": False,
    "top1_agreement": None,
    "nonfinite_engine": 0,
    "nonfinite_reference": 0,
}
FIRST_SCHEMA: dict[str, Any] = {
    "schema_version": 1,
    "target": "onnxruntime@cpu",
    "backend_version": "1.32.0",
    "model": "sha256:" + "a" * 64,
    "measured": True,
    "reason": None,
    "compile": {"seconds": 1.0, "engine_bytes": 1000, "peak_memory_bytes": 1, "warnings": []},
    "compile_machine": None,
    "latency": [],
    "accuracy": {
        "reference": "the original model",
        "data": "synthetic, seed 0",
        "synthetic": True,
        "samples": 4,
        "outputs": [OUTPUT],
    },
    "measure_machine": None,
    "versions": {},
    "gates": [],
}


def test_a_report_of_the_first_schema_is_read_and_nothing_is_made_up_for_it() -> None:
    report = BuildReport.model_validate(FIRST_SCHEMA)

    assert report.schema_version == 1 < REPORT_SCHEMA
    assert report.accuracy is not None
    (output,) = report.accuracy.outputs
    assert output.cosine == 0.99
    assert output.cosine_worst is None
    assert (output.reference_max_abs, output.reference_zero_share) == (None, None)
