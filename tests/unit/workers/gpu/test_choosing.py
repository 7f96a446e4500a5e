"""Which GPUs a node uses, which a job may have, and what a node says while some are out."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.errors import InvalidRequest, JobFailed
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import BackendDescription, Device, NodeDescription
from tasks.routing import queues_served
from tests.contract.nvml.recorded import recorded
from workers import hardware
from workers.gpu.narrowing import narrowed
from workers.gpu.need import DeviceNeed, GpuRules, need_of
from workers.gpu.serving import without

CPU = Device(arch="cpu", name="c")
A, B = (Device(arch="sm_90", name="H200", uuid=f"GPU-{name}1") for name in "ab")
OLD = Device(arch="sm_86", name="A10", uuid="GPU-c1")
PARTS = [Device(arch="sm_90", name="MIG", uuid=f"MIG-{n}", card="GPU-d1") for n in "12"]
ORT = Target(backend="onnxruntime", arch="sm_90")
RTX = Target(backend="tensorrt-rtx", arch="sm_89")
NODE = NodeDescription(
    hostname="h",
    cpu="c",
    cores=1,
    memory_bytes=1,
    devices=[CPU, A, B],
    backends=[
        BackendDescription(
            name="onnxruntime",
            version="1",
            builds=["cpu", "sm_90"],
            measures=["cpu", "sm_90"],
            on_device=["sm_90"],
        ),
        BackendDescription(name="tensorrt-rtx", version="1", builds=["sm_90"], measures=[]),
    ],
    stages=[Stage.COMPILE, Stage.BENCHMARK],
    farm_version="0",
)


NUMBERS = {0: "GPU-a1", 1: "GPU-b1", 2: "GPU-c1", 3: "GPU-d1"}


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ([], [A, B, OLD, *PARTS]),
        (["none"], []),
        (["GPU-b1"], [B]),
        (["GPU-a", "2"], [A, OLD]),
        (["MIG-2"], [PARTS[1]]),
        (["GPU-d"], PARTS),
        (["3"], PARTS),
    ],
)
def test_a_node_uses_the_gpus_that_are_named(wanted: list[str], left: list[Device]) -> None:
    assert narrowed([A, B, OLD, *PARTS], wanted, NUMBERS) == left


def test_a_number_is_the_drivers_also_where_a_card_before_it_is_lost() -> None:
    lost = {number: uuid for number, uuid in NUMBERS.items() if number != 0}
    assert narrowed([B, OLD, *PARTS], ["2"], lost) == [OLD]
    with pytest.raises(InvalidRequest):
        narrowed([B, OLD, *PARTS], ["0"], lost)


@pytest.mark.parametrize("wanted", ["GPU-", "GPU-x", "4", "H200"])
def test_a_name_that_fits_none_or_several_is_refused_with_those_that_are_here(wanted: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrowed([A, B, OLD, *PARTS], [wanted], NUMBERS)
    assert refused.value.code == "device_unknown"
    assert "GPU-a1" in refused.value.why


def test_a_machine_tells_of_its_instances_as_devices_of_their_own() -> None:
    _, *found = hardware.devices(port=recorded("two_instances"))
    assert [row.uuid or "" for row in found] == sorted(row.uuid or "" for row in found)
    assert {(row.arch, row.card is not None, row.ecc) for row in found} == {("sm_90", True, True)}
    assert [row.arch for row in hardware.devices(["none"], recorded("one_card"))] == ["cpu"]


def test_a_measurement_may_have_any_device_of_its_architecture_and_has_it_alone() -> None:
    need = need_of(Stage.BENCHMARK, ORT, [CPU, A, OLD, B], GpuRules(share=True))
    assert (need.devices, need.shared) == (["GPU-a1", "GPU-b1"], False)


def test_what_is_for_a_sku_has_a_device_of_that_sku_or_none() -> None:
    old = Device(arch="sm_90", name="NVIDIA H100", uuid="GPU-h1")
    for stage in (Stage.COMPILE, Stage.BENCHMARK):
        h100 = Target(backend="onnxruntime", arch="sm_90", sku="h100")
        assert need_of(stage, h100, [CPU, A, old], GpuRules()).devices == ["GPU-h1"]
        assert need_of(stage, h100, [CPU, A], GpuRules()).devices == []


def test_a_measurement_has_a_device_of_the_first_architecture_of_its_target_that_is_well() -> None:
    both, new = Target.parse("tensorrt-rtx@sm_86+sm_89"), Device(arch="sm_89", name="L4", uuid="L4")
    out = GpuRules(faults={"GPU-c1": "Xid 79"})
    assert need_of(Stage.BENCHMARK, both, [CPU, A, new, OLD], GpuRules()).devices == ["GPU-c1"]
    assert need_of(Stage.BENCHMARK, both, [CPU, A, new], GpuRules()).devices == ["L4"]
    assert need_of(Stage.BENCHMARK, both, [CPU, A, new, OLD], out).devices == ["L4"]
    assert need_of(Stage.COMPILE, both, [CPU, new, OLD], GpuRules()).devices == ["L4", "GPU-c1"]


def test_compiles_share_a_device_only_where_the_operator_says_so() -> None:
    assert not need_of(Stage.COMPILE, ORT, [CPU, A], GpuRules()).shared
    assert need_of(Stage.COMPILE, ORT, [CPU, A], GpuRules(share=True)).shared


def test_a_build_ahead_of_time_takes_a_device_since_it_opens_one() -> None:
    assert need_of(Stage.COMPILE, RTX, [CPU, A], GpuRules()).devices == ["GPU-a1"]


@pytest.mark.parametrize("here", [A, Device(arch="sm_89", name="L4", uuid="GPU-a1")])
def test_a_build_ahead_of_time_goes_on_without_a_device_while_all_are_out(here: Device) -> None:
    out = GpuRules(faults={"GPU-a1": "Xid 79"})
    for stage in (Stage.CHECK, Stage.COMPILE):
        assert need_of(stage, RTX, [CPU, here], out) == DeviceNeed()
    if here.arch in RTX.archs:
        with pytest.raises(JobFailed) as failed:
            need_of(Stage.BENCHMARK, RTX, [CPU, here], out)
        assert failed.value.code == "device_busy"


@pytest.mark.parametrize(
    ("stage", "target"),
    [(Stage.BENCHMARK, Target(backend="onnxruntime", arch="cpu")), (Stage.REPAIR, ORT)],
)
def test_what_needs_no_gpu_takes_none(stage: Stage, target: Target) -> None:
    assert need_of(stage, target, [CPU, A], GpuRules()).devices == []


def test_a_device_that_is_out_is_not_taken_and_if_all_are_the_job_waits() -> None:
    faults = {"GPU-a1": "Xid 79"}
    assert need_of(Stage.BENCHMARK, ORT, [A, B], GpuRules(faults=faults)).devices == ["GPU-b1"]
    with pytest.raises(JobFailed) as failed:
        need_of(Stage.BENCHMARK, ORT, [A], GpuRules(faults=faults, lock_folder=Path("x")))
    assert failed.value.code == "device_busy"
    assert "GPU-a1: Xid 79" in failed.value.why


def test_while_one_of_two_devices_is_out_a_node_serves_what_it_served() -> None:
    told = without(NODE, {"GPU-a1": "Xid 79"})
    assert queues_served(told) == queues_served(NODE)
    assert [row.fault for row in told.devices] == [None, "Xid 79", None]


def test_while_all_are_out_a_node_serves_only_what_needs_none() -> None:
    told = without(NODE, {"GPU-a1": "Xid 79", "GPU-b1": "Xid 48"})
    assert queues_served(told) == ["benchmark.cpu", "compile.cpu", "compile.sm_90"]
    (ort, rtx) = told.backends
    assert (ort.builds, ort.measures, rtx.builds) == (["cpu"], ["cpu"], ["sm_90"])
    assert without(NODE, {}) == NODE


def test_a_measurement_on_a_sku_takes_a_device_of_it_and_no_other() -> None:
    l4, l40s = (Device(arch="sm_89", name=name, uuid=name) for name in ("NVIDIA L4", "NVIDIA L40S"))
    target, rules = Target(backend="onnxruntime", arch="sm_89"), GpuRules()
    need = need_of(Stage.BENCHMARK, target, [CPU, l4, l40s], rules, "l40s")
    assert need.devices == ["NVIDIA L40S"]
    assert need_of(Stage.BENCHMARK, target, [l4, l40s], rules).devices == [
        "NVIDIA L4",
        "NVIDIA L40S",
    ]
    with pytest.raises(JobFailed) as refused:
        need_of(Stage.BENCHMARK, target, [CPU, l4], rules, "l40s")
    assert refused.value.code == "not_measurable_here"
