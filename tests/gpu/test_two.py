"""Two GPUs in one machine: each job has one to itself, and what befalls one is not the other's."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from localfarm.models import shipped
from tests.contract.backends.bench import found
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, latencies, rules
from tests.integration.workers.served import CREDENTIAL, Served, start
from workers.executor import Workshop
from workers.farm_api import WorkerApi
from workers.gpu.health import LOOKS
from workers.gpu.lock import try_lock
from workers.gpu.port import Nvml
from workers.gpu.watch import Watcher
from workers.settings import ROOT

pytestmark = pytest.mark.gpu
NAME = "rapidocr-rec"
LONG = {"min_duration_ms": 4000, "max_duration_ms": 4000}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[GpuNode]]:
    """Return two executors of one machine that may both use both of its first two GPUs."""
    probe = found()
    backend = next((row for row in probe.backends if row.name == "onnxruntime"), None)
    measured = backend.measures if backend else []
    gpus = [row for row in probe.devices if row.uuid and row.arch in measured][:2]
    if len(gpus) < 2:
        pytest.skip("not run: needs two NVIDIA GPUs and onnxruntime-gpu")
    devices = [row for row in probe.devices if row.uuid is None or row in gpus]
    with ExitStack() as stack:
        nodes = []
        for number, gpu in enumerate(gpus):
            served = Served()
            stack.callback(start(served))
            api = WorkerApi(served.url, CREDENTIAL)
            stack.callback(api.close)
            workshop = Workshop(
                api=api,
                scratch=tmp_path / f"scratch-{number}",
                devices=devices,
                job_log_bytes=1 << 20,
                gpus=rules(tmp_path / "locks", times=1),
            )
            nodes.append(GpuNode(served, workshop, probe, gpu))
        yield nodes


def used(end: dict[str, Any]) -> str:
    """Return the device that an attempt says it had."""
    uuid = end["machine"]["device_uuid"]
    assert isinstance(uuid, str)
    return uuid


def test_two_measurements_at_a_time_have_a_device_each_and_each_is_alone_on_it(
    pair: list[GpuNode], evidence: Evidence
) -> None:
    sample = shipped(NAME)
    engine = pair[0].build(sample)
    ends: list[dict[str, Any]] = []
    spans: list[tuple[float, float]] = []

    def measured(node: GpuNode) -> None:
        began = time.monotonic()
        ends.append(node.measure(sample, engine, **LONG))
        spans.append((began, time.monotonic()))

    threads = [threading.Thread(target=measured, args=(node,)) for node in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)

    assert len(ends) == 2
    for end in ends:
        (row,) = latencies(end)
        assert row.trust is not None
        evidence.row(
            "Two GPUs, one measurement on each at the same time",
            device=used(end)[-6:],
            exclusive=row.trust.exclusive,
            P50=row.end_to_end_ms.p50,
            tainted="; ".join(row.trust.tainted) or "no",
        )
        assert row.trust.exclusive is True, row.trust.exclusive_proof
    assert {used(end) for end in ends} == {str(node.gpu.uuid) for node in pair}
    (first, second) = spans
    assert max(first[0], second[0]) < min(first[1], second[1])


def test_a_device_that_is_taken_is_passed_over_for_the_other(pair: list[GpuNode]) -> None:
    sample, node = shipped("magika"), pair[0]
    engine = node.build(sample)
    for taken, other in ((pair[0].gpu, pair[1].gpu), (pair[1].gpu, pair[0].gpu)):
        held = try_lock(node.workshop.gpus.lock_folder, str(taken.uuid))
        assert held is not None
        end = node.measure(sample, engine)
        held.free()
        assert latencies(end)
        assert used(end) == str(other.uuid)


def test_a_stranger_on_one_device_takes_that_one_out_alone(
    port: Nvml, pair: list[GpuNode], tmp_path: Path, evidence: Evidence
) -> None:
    uuids = [str(node.gpu.uuid) for node in pair]
    watcher = Watcher(port, uuids, tmp_path)

    def looked() -> dict[str, str | None]:
        return [watcher.look(0.5, time.monotonic()) for _ in range(LOOKS)][-1]

    assert [looked()[uuid] for uuid in uuids] == [None, None]
    command = [sys.executable, "-m", "tests.gpu.stranger", uuids[1], "512"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "there\n"
        faults = looked()
        stranger.kill()

    evidence.row("A stranger on the second of two", first=faults[uuids[0]], second=faults[uuids[1]])
    assert faults[uuids[0]] is None
    assert "not the farm's" in str(faults[uuids[1]])
