"""The real NVML keeps what the recorded one does, and a node describes itself from it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.state import Stage
from tasks.routing import queues_served
from tests.contract.nvml.suite import NvmlSuite
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode
from workers import node as workers_node
from workers.gpu.port import Nvml
from workers.probe import probe_in_child

pytestmark = pytest.mark.gpu


class TestReal(NvmlSuite):
    @pytest.fixture
    def nvml(self, port: Nvml) -> Nvml:
        return port


def test_what_the_driver_tells_is_written_down(port: Nvml, evidence: Evidence) -> None:
    found = port.devices()
    for gpu in found:
        told = dataclasses.asdict(gpu) | dataclasses.asdict(port.reading(gpu.uuid))
        told |= dataclasses.asdict(port.errors(gpu.uuid))
        told["processes"] = len(port.processes(gpu.uuid))
        for name, value in told.items():
            shown = sorted(value) if isinstance(value, frozenset) else value
            evidence.row("What NVML tells of an idle device", field=name, value=json.dumps(shown))

    assert found
    assert len({gpu.uuid for gpu in found}) == len(found)
    assert all(gpu.memory_bytes and gpu.driver and gpu.arch.startswith("sm_") for gpu in found)


def test_a_node_finds_its_device_by_itself_and_serves_its_architecture(
    node: GpuNode, evidence: Evidence
) -> None:
    description = workers_node.describe(
        node.found, [Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK], 1
    )
    queues = queues_served(description)

    assert {f"{stage}.{node.gpu.arch}" for stage in ("check", "compile", "benchmark")} <= set(
        queues
    )
    (ort,) = (row for row in node.found.backends if row.name == "onnxruntime")
    assert node.gpu.arch in ort.on_device
    assert node.gpu.driver
    assert node.gpu.cuda
    for row in node.found.backends:
        evidence.row(
            "Backends that load",
            backend=row.name,
            version=row.version,
            builds=", ".join(row.builds),
            measures=", ".join(row.measures) or "nothing",
        )
    for name, reason in node.found.absent.items():
        evidence.row("Backends that do not load", backend=name, reason=reason)


def test_an_operator_narrows_a_node_to_one_device_or_none(node: GpuNode) -> None:
    uuid = str(node.gpu.uuid)

    assert [row.uuid for row in probe_in_child([uuid[:12]]).devices if row.uuid] == [uuid]
    nobody = probe_in_child(["none"])
    assert [row.arch for row in nobody.devices] == ["cpu"]
    (ort,) = (row for row in nobody.backends if row.name == "onnxruntime")
    assert ort.measures == ["cpu"]
    with pytest.raises(InvalidRequest) as refused:
        probe_in_child(["GPU-nobody"])
    assert refused.value.code == "device_unknown"
    assert uuid in refused.value.why


def test_a_process_with_a_context_is_seen(
    port: Nvml, node: GpuNode, stranger: Callable[[], subprocess.Popen[str]], evidence: Evidence
) -> None:
    """In the list of processes or, where a container hides that, in the memory in use."""
    uuid = str(node.gpu.uuid)
    before, used_before = port.processes(uuid), port.reading(uuid).used_bytes

    process = stranger()

    after, used_after = port.processes(uuid), port.reading(uuid).used_bytes
    evidence.row(
        "A process that is nobody's job",
        its_pid=process.pid,
        shown_before=[row.pid for row in before],
        shown_with_it=[row.pid for row in after],
        used_before=used_before,
        used_with_it=used_after,
    )
    grown = (used_after or 0) - (used_before or 0)
    assert len(after) > len(before) or grown > 512 << 20
