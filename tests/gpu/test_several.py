"""Two engines in turns on a real GPU, and one engine on several streams at a time."""

from __future__ import annotations

import pytest

from enginefarm.comparison_report import ComparisonVerdict
from localfarm.models import shipped
from tasks.comparing.facts import ComparedFacts
from tasks.comparing.judging import judged_at
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, latencies

pytestmark = pytest.mark.gpu
NAME = "rapidocr-rec"


def test_an_engine_held_against_itself_is_neither_faster_nor_slower(
    node: GpuNode, evidence: Evidence
) -> None:
    sample = shipped(NAME)
    engine = node.build(sample)

    end = node.compare(sample, (engine, engine), min_duration_ms=2000)

    assert end["failure"] is None, end["failure"]
    (row,) = ComparedFacts.model_validate(end["facts"]).compared
    told = judged_at(row)
    evidence.row(
        "An engine against itself, in turns",
        model=NAME,
        times=told.speedup,
        low=told.low,
        high=told.high,
        A_P50=told.first.end_to_end_ms.p50,
        B_P50=told.second.end_to_end_ms.p50,
        A_P99=told.first.end_to_end_ms.p99,
        B_P99=told.second.end_to_end_ms.p99,
        verdict=str(told.verdict),
        tainted="; ".join(told.trust.tainted) or "no",
    )
    assert told.verdict in {ComparisonVerdict.ALIKE, ComparisonVerdict.CANNOT_TELL}
    assert told.trust.samples > 0


def test_a_sweep_over_streams_measures_each_and_labels_the_best(
    node: GpuNode, evidence: Evidence
) -> None:
    sample = shipped(NAME)

    end = node.measure(sample, node.build(sample), min_duration_ms=500, streams=[1, 2, 4, 8])

    (row,) = latencies(end)
    assert row.streams_reason is None
    for each in row.streams:
        evidence.row(
            f"A sweep over streams: {NAME}",
            streams=each.streams,
            per_second=each.throughput_qps,
            P50=each.end_to_end_ms.p50,
            P99=each.end_to_end_ms.p99,
            best="yes" if each.best else "",
            tainted="; ".join(each.trust.tainted) if each.trust else "",
        )
    assert [each.streams for each in row.streams] == [1, 2, 4, 8]
    assert all(each.end_to_end_ms.count >= each.streams for each in row.streams)
    assert sum(each.best for each in row.streams) <= 1
