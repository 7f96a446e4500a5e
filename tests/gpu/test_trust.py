"""A measurement has its device alone, proves it, and says under which conditions it was made."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localfarm.models import shipped
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, failure_of, latencies
from workers.gpu.health import LOOKS
from workers.gpu.lock import try_lock
from workers.gpu.port import Nvml
from workers.gpu.watch import Watcher

pytestmark = pytest.mark.gpu


def test_the_record_of_a_quiet_measurement_is_whole(node: GpuNode, evidence: Evidence) -> None:
    sample = shipped("rapidocr-rec")
    end = node.measure(sample, node.build(sample))
    (row,) = latencies(end)
    trust = row.trust
    assert trust is not None
    for name, value in trust.model_dump(mode="json").items():
        evidence.row("The trust record of a quiet measurement", field=name, value=value)

    assert trust.exclusive is True, trust.exclusive_proof
    assert not [reason for reason in trust.tainted if "not alone" in reason]
    assert trust.samples >= 4
    assert trust.sm_clock is not None
    assert trust.sm_clock.median > 0
    assert trust.sm_clock.max is None or trust.sm_clock.median <= trust.sm_clock.max
    assert trust.throttle_reasons is not None
    assert trust.temperature_max_c is not None
    assert trust.temperature_max_c > 0
    assert trust.driver == node.gpu.driver
    for name, reason in trust.absent.items():
        assert reason, name
    if node.gpu.card is None:
        assert trust.power_mean_w is not None
        assert trust.energy_per_inference_mj is not None
        # As much as its power over its time, within what idle gaps and a slow counter make of it.
        guess = trust.power_mean_w * 1000 / (row.device or row).throughput_qps
        assert guess / 3 < trust.energy_per_inference_mj < guess * 3
    assert end["machine"]["device_uuid"] == node.gpu.uuid


def test_a_measurement_that_the_host_does_not_bound_can_be_relied_on(
    node: GpuNode, evidence: Evidence
) -> None:
    """Replays of a graph leave the host little to disturb: such a record is clean."""
    sample = shipped("rapidocr-det")
    end = node.with_rules(times=8).measure(sample, node.build(sample), cuda_graph=True)
    (row,) = latencies(end)

    trust, device = row.trust, row.device
    assert trust is not None
    assert device is not None
    assert device.cuda_graph
    evidence.row(
        "A clean record, with a CUDA graph: rapidocr-det",
        GPU_compute_P50=device.gpu_compute_ms.p50,
        its_CoV=device.gpu_compute_ms.cov,
        enqueue=device.enqueue_ms.p50,
        SM_MHz=trust.sm_clock.median if trust.sm_clock else None,
        mJ=trust.energy_per_inference_mj,
        measured_times=trust.times_measured,
        tainted="; ".join(trust.tainted) or "no",
    )
    assert trust.exclusive is True
    assert trust.tainted == []
    assert not [note for note in device.notes if "bound by the host" in note]


def test_a_stranger_who_was_there_first_taints_the_measurement(
    node: GpuNode, stranger: Callable[[], subprocess.Popen[str]], evidence: Evidence
) -> None:
    sample = shipped("magika")
    engine = node.build(sample)
    stranger()

    (row,) = latencies(node.with_rules(times=2).measure(sample, engine))

    trust = row.trust
    assert trust is not None
    evidence.row("Strangers on the device", came="before", tainted="; ".join(trust.tainted))
    assert trust.exclusive is False
    assert any("not alone" in reason for reason in trust.tainted)
    assert trust.times_measured == 2


def test_a_stranger_who_comes_while_it_is_measured_taints_the_measurement(
    node: GpuNode, stranger: Callable[[], subprocess.Popen[str]], evidence: Evidence
) -> None:
    sample = shipped("magika")
    engine = node.build(sample)

    def come_late() -> None:
        while not any(body.get("progress") for body in node.served.bodies("/beat")):
            time.sleep(0.05)
        while "measuring" not in str(node.served.bodies("/beat")[-1]["progress"]):
            time.sleep(0.05)
        stranger()

    late = threading.Thread(target=come_late, daemon=True)
    node.served.heard.clear()
    late.start()
    options = {"min_duration_ms": 4000, "max_duration_ms": 4000}
    (row,) = latencies(node.measure(sample, engine, **options))
    late.join(timeout=30)

    trust = row.trust
    assert trust is not None
    evidence.row("Strangers on the device", came="meanwhile", tainted="; ".join(trust.tainted))
    assert trust.exclusive is False, trust.exclusive_proof


def test_a_stranger_takes_the_device_out_and_his_leaving_brings_it_back(
    port: Nvml,
    node: GpuNode,
    stranger: Callable[[], subprocess.Popen[str]],
    tmp_path: Path,
    evidence: Evidence,
) -> None:
    uuid = str(node.gpu.uuid)
    watcher = Watcher(port, [uuid], tmp_path)

    def looked() -> str | None:
        faults = [watcher.look(0.5, time.monotonic())[uuid] for _ in range(LOOKS)]
        return faults[-1]

    assert looked() is None
    process = stranger()
    fault = looked()
    process.kill()
    process.wait()
    time.sleep(1)

    evidence.row("Strangers on the device", came="while it was idle", tainted=fault)
    assert fault is not None
    assert "not the farm's" in fault
    assert looked() is None


def test_a_device_that_another_node_has_is_waited_for_and_then_given_up(
    node: GpuNode, evidence: Evidence
) -> None:
    sample = shipped("magika")
    engine = node.build(sample)
    held = try_lock(node.workshop.gpus.lock_folder, str(node.gpu.uuid))
    assert held is not None

    failure = failure_of(node.with_rules(wait_s=2).measure(sample, engine))

    assert failure.code == "device_busy"
    timer = threading.Timer(3, held.free)
    timer.start()
    (row,) = latencies(node.measure(sample, engine))
    timer.join()
    evidence.row("One owner", another_node_had_it=failure.code, after_it_let_go=row.batch)
