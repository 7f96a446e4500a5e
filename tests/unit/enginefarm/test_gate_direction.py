"""A gate has its bound on the side on which engines get worse; every metric has one such side."""

from __future__ import annotations

from contextlib import suppress

import pytest
from pydantic import JsonValue

from enginefarm.errors import InvalidRequest
from enginefarm.gate_direction import require_direction
from enginefarm.spec import Gate, Metric
from enginefarm.spec_errors import valid_spec
from tests.refused import refused_with

HIGHER = {
    *("cosine", "cosine_worst", "snr_db", "psnr_db", "top1_agreement", "top5_agreement"),
}
EITHER = {Metric.METRIC_VALUE}
"""An accuracy has a least value, an error rate a greatest."""


@pytest.mark.parametrize("metric", Metric)
def test_one_bound_is_taken_on_one_side_only(metric: Metric) -> None:
    taken = set()
    for side in ("at_least", "at_most"):
        with suppress(InvalidRequest):
            require_direction(Gate.model_validate({"metric": metric, side: 0.5}))
            taken.add(side)

    right = {"at_least" if metric.plain in HIGHER else "at_most"}
    assert taken == ({"at_least", "at_most"} if metric in EITHER else right)


@pytest.mark.parametrize("metric", Metric)
def test_a_range_may_be_meant(metric: Metric) -> None:
    range_of_both = Gate(metric=metric, at_least=0.5, at_most=0.9)
    assert refused_with(require_direction, range_of_both) is None


def test_the_refusal_names_the_direction_that_makes_sense() -> None:
    gate: JsonValue = {"metric": "latency_p99_ms", "at_least": 5}
    asked: dict[str, JsonValue] = {
        "model": f"sha256:{'0' * 64}",
        "targets": ["onnxruntime@cpu"],
        "gates": [gate],
    }

    with pytest.raises(InvalidRequest) as caught:
        valid_spec(asked)

    error = caught.value
    assert error.code == "gate_direction"
    assert error.message == "The gate latency_p99_ms >= 5 looks in the wrong direction."
    assert error.why.startswith("The lower latency_p99_ms is, the better")
    assert error.fix == "Give at_most instead of at_least."
    assert error.context == {"metric": "latency_p99_ms", "sign": "<=", "bound": "5"}
