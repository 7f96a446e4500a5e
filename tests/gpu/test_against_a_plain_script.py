"""The farm's numbers are those that a person's own script has of the same engine.

Held against each other is what does not depend on how busy the host is: the GPU compute time of
replays of a CUDA graph, in rounds that take turns. Whole runs from arrays to arrays are bound by
the host; of them the fastest decile is written down, without a bound.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from enginefarm.report import LatencyReport
from localfarm.models import shipped
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, latencies
from workers.backends.ort_session import open_reference
from workers.measurement.inputs import synthetic

pytestmark = pytest.mark.gpu
ROUNDS, SECONDS, WITHIN = 6, 0.6, 0.02
SCRIPT = Path(__file__).parent / "plain.py"
MODEL = "rapidocr-rec"


def engine_and_inputs(node: GpuNode, folder: Path) -> Path:
    """Build the engine, and write inputs of its shapes beside it."""
    sample = shipped(MODEL)
    path = folder / "engine.onnx"
    path.write_bytes(node.build(sample))
    views = open_reference(sample.file()).inputs
    feeds = synthetic(views, sample.profile, sample.synthetic, np.random.default_rng(0))
    np.savez(f"{path}.npz", allow_pickle=False, **feeds)
    return path


def by_the_farm(node: GpuNode, engine: bytes) -> LatencyReport:
    """Measure as a job does."""
    (row,) = latencies(node.measure(shipped(MODEL), engine, cuda_graph=True))
    return row


def by_the_script(path: Path, threads: int) -> dict[str, float]:
    """Measure as a person's script does."""
    command = [sys.executable, str(SCRIPT), str(path), str(threads), str(SECONDS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_plain_script_finds_the_same_gpu_compute_time(
    node: GpuNode, evidence: Evidence, tmp_path: Path
) -> None:
    path = engine_and_inputs(node, tmp_path)
    ratios = []
    for number in range(ROUNDS):
        row = by_the_farm(node, path.read_bytes())
        plain = by_the_script(path, row.threads)
        assert row.device is not None, row.device_reason
        assert row.device.cuda_graph
        ratios.append(row.device.gpu_compute_ms.p50 / plain["compute"])
        evidence.row(
            f"Against a plain script, in turns: {MODEL}",
            round=number + 1,
            farm_GPU_compute_P50=row.device.gpu_compute_ms.p50,
            script_GPU_compute_P50=plain["compute"],
            ratio=f"{ratios[-1]:.4f}",
            farm_fastest_decile_of_whole_runs=statistics.quantiles(row.runs_ms, n=10)[0],
            script_fastest_decile=plain["whole"],
        )

    middle = statistics.median(ratios)
    evidence.row("Against a plain script, in turns: median ratio", ratio=f"{middle:.4f}")
    assert middle == pytest.approx(1, abs=WITHIN), ratios
