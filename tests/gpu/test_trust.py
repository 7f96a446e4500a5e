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
QUICK = {"max_duration_ms": 3000}


def test_the_record_of_a_quiet_measurement_is_whole(node: GpuNode, evidence: Evidence) -> None:
    sample = shipped("rapidocr-rec")
    end = node.measure(sample, node.build(sample), **QUICK)
    (row,) = latencies(end)
    trust = row.trust
    assert trust is not None
    for name, value in trust.model_dump(mode="json").items():
        evidence.row("The trust record of a quiet measurement", field=name, value=value)

    assert trust.exclusive is True, trust.exclusive_proof
    assert not [reason for reason in trust.tainted if "not alone" in reason]
    assert trust.samples >= 5
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


def test_a_stranger_who_was_there_first_taints_the_measurement(
    node: GpuNode, stranger: Callable[[], subprocess.Popen[str]], evidence: Evidence
) -> None:
    sample = shipped("magika")
    engine = node.build(sample)
    stranger()

    (row,) = latencies(node.with_rules(times=2).measure(sample, engine, **QUICK))

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
    options = {"min_duration_ms": 6000, "max_duration_ms": 8000}
    (row,) = latencies(node.with_rules(times=1).measure(sample, engine, **options))
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

    failure = failure_of(node.with_rules(wait_s=2).measure(sample, engine, **QUICK))

    assert failure.code == "device_busy"
    timer = threading.Timer(3, held.free)
    timer.start()
    (row,) = latencies(node.measure(sample, engine, **QUICK))
    timer.join()
    evidence.row("One owner", another_node_had_it=failure.code, after_it_let_go=row.batch)
