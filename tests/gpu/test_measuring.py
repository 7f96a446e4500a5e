"""Real models through the real executor on a real GPU: built, measured by trtexec's names."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.report import LatencyReport
from localfarm.models import shipped
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, latencies

pytestmark = pytest.mark.gpu
MODELS = ["magika", "rapidocr-det", "rapidocr-rec", "silero-ifless"]


def told(evidence: Evidence, name: str, row: LatencyReport, accuracy: dict[str, Any]) -> None:
    """Put a measurement into the page."""
    device, trust = row.device, row.trust
    assert device is not None, row.device_reason
    assert trust is not None
    cosines = [each["cosine"] for each in accuracy["outputs"] if each["cosine"] is not None]
    evidence.row(
        "Real models",
        model=name,
        shapes=" ".join("x".join(map(str, shape)) for shape in row.shapes.values()),
        end_to_end_P50=row.end_to_end_ms.p50,
        P99=row.end_to_end_ms.p99,
        latency_P50=device.latency_ms.p50,
        H2D=device.h2d_ms.p50,
        GPU_compute_P50=device.gpu_compute_ms.p50,
        its_CoV=device.gpu_compute_ms.cov,
        D2H=device.d2h_ms.p50,
        enqueue=device.enqueue_ms.p50,
        QPS=device.throughput_qps,
        mJ=trust.energy_per_inference_mj,
        SM_MHz=trust.sm_clock.median if trust.sm_clock else None,
        cosine=min(cosines),
        measured_times=trust.times_measured,
        tainted="; ".join(trust.tainted) or "no",
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_is_built_and_measured_by_trtexecs_names(
    node: GpuNode, evidence: Evidence, name: str
) -> None:
    sample = shipped(name)

    end = node.measure(sample, node.build(sample))
    (row,) = latencies(end)

    told(evidence, name, row, end["facts"]["accuracy"])
    device = row.device
    assert device is not None
    assert all(each["cosine"] > 0.999 for each in end["facts"]["accuracy"]["outputs"])
    parts = device.h2d_ms.p50 + device.gpu_compute_ms.p50 + device.d2h_ms.p50
    assert device.latency_ms.p50 == pytest.approx(parts, rel=0.1)
    assert device.latency_ms.min > device.gpu_compute_ms.min
    # What a caller of the session sees is no less than what the device does, unless the device
    # waits for the host: then it is the host's turns that are timed on both.
    if any("bound by the host" in note for note in device.notes):
        assert device.enqueue_ms.p50 > device.gpu_compute_ms.p50 * 0.8
    else:
        assert row.end_to_end_ms.min > device.gpu_compute_ms.min * 0.8
    assert device.throughput_qps <= 1000 / device.latency_ms.min
    assert not device.cuda_graph


@pytest.mark.parametrize("name", ["magika", "rapidocr-rec"])
def test_a_cuda_graph_is_replayed_where_it_can_be_and_else_it_is_said(
    node: GpuNode, evidence: Evidence, name: str
) -> None:
    sample = shipped(name)
    engine = node.build(sample)

    (plain,) = latencies(node.measure(sample, engine))
    (graph,) = latencies(node.measure(sample, engine, cuda_graph=True))

    assert plain.device is not None
    assert graph.device is not None
    evidence.row(
        "CUDA graphs",
        model=name,
        without=plain.device.gpu_compute_ms.p50,
        enqueue_without=plain.device.enqueue_ms.p50,
        CoV_without=plain.device.gpu_compute_ms.cov,
        with_one=graph.device.gpu_compute_ms.p50,
        enqueue_with_one=graph.device.enqueue_ms.p50,
        CoV_with_one=graph.device.gpu_compute_ms.cov,
        is_one=graph.device.cuda_graph,
        notes="; ".join(graph.device.notes),
    )
    said = [note for note in graph.device.notes if "no CUDA graph" in note]
    assert graph.device.cuda_graph == (not said)


def test_a_sweep_over_batches_measures_each(node: GpuNode, evidence: Evidence) -> None:
    sample = shipped("rapidocr-rec")

    end = node.measure(
        sample,
        node.build(sample),
        min_duration_ms=200,
        max_duration_ms=500,
        cuda_graph=True,
        batches=[1, 2, 4, 8],
    )

    rows = latencies(end)
    for row in rows:
        assert row.device is not None
        evidence.row(
            "A sweep over batches: rapidocr-rec",
            batch=row.batch,
            is_a_graph=row.device.cuda_graph,
            GPU_compute_P50=row.device.gpu_compute_ms.p50,
            per_second=row.device.throughput_qps * (row.batch or 1),
        )
    assert [(row.batch, row.swept) for row in rows[1:]] == [(n, True) for n in (1, 2, 4, 8)]
    assert not rows[0].swept
