"""A gate that nobody can judge is refused with what can be judged instead, for every metric."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.gate import Metric
from tasks.plan import plan_target
from tests.unit.tasks.test_plan import GPU, live, spec

MEASURED = [row for row in Metric if not (row.of_model_file or row is Metric.ENGINE_BYTES)]


@pytest.mark.parametrize("metric", MEASURED)
def test_its_refusal_says_what_can_be_judged_instead(metric: Metric) -> None:
    cpu = live("cpu", "1.2", backend="onnxruntime", arch="cpu")

    def fix(target: str | None = None, **fields: object) -> str:
        asked = spec(gates=[{"metric": metric, "at_most": 5, "target": target}], **fields)
        with pytest.raises(InvalidRequest) as refused:
            plan_target(asked, GPU, [live(measures=False), cpu])
        assert refused.value.why == "No live node has a sm_89 device with tensorrt-rtx."
        return str(refused.value.fix)

    assert fix().startswith("Leave the gate out, or wait for such a node: if_unmeasured: wait")
    both = [str(GPU), "onnxruntime@cpu"]
    told = "Let the gate look only at onnxruntime@cpu, which is measured, or wait"
    assert fix(targets=both).startswith(told)
    assert fix(str(GPU), targets=both).startswith("Leave the gate out")
    precise = fix(precision={"kind": "fp16"})
    per_file = f"model.{metric}" in set(Metric)
    assert precise.startswith(f"Write model.{metric}: it is" if per_file else "Leave the gate out")


@pytest.mark.parametrize("metric", MEASURED)
def test_a_processor_is_measured_for_every_metric(metric: Metric) -> None:
    cpu = live("cpu", "1.2", backend="onnxruntime", arch="cpu")
    asked = spec(targets=["onnxruntime@cpu"], gates=[{"metric": metric, "at_most": 5}])
    assert plan_target(asked, asked.targets[0], [cpu]).measured
