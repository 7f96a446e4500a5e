"""The error codes of gates, and of metrics that need labels."""

from __future__ import annotations

from typing import Final

GATE_CODES: Final[dict[str, str]] = {
    "dataset_labels": "Labels are no whole numbers, or not one or one row for each sample.",
    "dataset_missing_labels": "The dataset lacks the labels that the metric names.",
    "gate_against": "A gate names an artifact that nothing can be held against so.",
    "gate_bounds": "No value can meet the gate.",
    "gate_not_met": "The engine missed a gate; it is quarantined and not published.",
    "gate_tainted": "A gate does not believe a disturbed latency; the engine is quarantined.",
    "gate_target_unknown": "A gate names a target that the build does not build.",
    "gate_unmeasurable": "A gate looks at a number that no live node can measure.",
    "gate_without_metric": "A gate looks at a metric that the build does not ask for.",
    "gate_without_output": "A gate names an output, but its metric is not one of outputs.",
    "gate_without_precision": "A gate looks at a model file in a precision, and none is asked for.",
    "metric_without_dataset": "A metric by labels is asked for, and no dataset holds any.",
}
