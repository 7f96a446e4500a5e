"""The farm's numbers are those that a person's own script has of the same engine."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from localfarm.models import shipped
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, latencies
from workers.backends.onnxruntime import open_reference
from workers.measurement.inputs import synthetic

pytestmark = pytest.mark.gpu
ROUNDS, SECONDS, WITHIN = 3, 2, 0.02
SCRIPT = Path(__file__).parent / "plain.py"


@pytest.mark.parametrize("name", ["rapidocr-rec", "rapidocr-det"])
def test_a_plain_script_finds_the_same_medians(
    node: GpuNode, evidence: Evidence, tmp_path: Path, name: str
) -> None:
    sample = shipped(name)
    engine = node.build(sample)
    path = tmp_path / "engine.onnx"
    path.write_bytes(engine)
    views = open_reference(sample.file()).inputs
    feeds = synthetic(views, sample.profile, sample.synthetic, np.random.default_rng(0))
    np.savez(f"{path}.npz", allow_pickle=False, **feeds)
    ratios: dict[str, list[float]] = {"whole": [], "compute": []}
    for _ in range(ROUNDS):
        options = {"min_duration_ms": SECONDS * 1000, "max_duration_ms": SECONDS * 1000}
        (row,) = latencies(node.with_rules(times=1).measure(sample, engine, **options))
        command = [sys.executable, str(SCRIPT), str(path), str(row.threads), str(SECONDS)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        plain = json.loads(done.stdout.splitlines()[-1])
        assert row.device is not None, row.device_reason
        ours = {"whole": row.end_to_end_ms.p50, "compute": row.device.gpu_compute_ms.p50}
        for what, values in ratios.items():
            values.append(ours[what] / plain[what])
            evidence.row(
                "Against a plain script",
                model=name,
                what=what,
                farm_ms=ours[what],
                script_ms=plain[what],
                ratio=f"{values[-1]:.4f}",
            )

    for what, values in ratios.items():
        assert statistics.median(values) == pytest.approx(1, abs=WITHIN), (what, values)
