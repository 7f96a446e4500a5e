"""What a machine says of itself."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import Device
from workers import hardware
from workers.measurement import machine


def test_without_a_driver_there_is_only_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    found = hardware.devices()
    assert [device.arch for device in found] == ["cpu"]
    assert found[0].memory_bytes == hardware.memory_bytes()


def test_memory_is_the_containers_where_that_is_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit, none = tmp_path / "memory.max", tmp_path / "none"
    limit.write_text("1048576\n")
    monkeypatch.setattr(hardware, "_CGROUP_MEMORY", (limit, none))
    assert hardware.memory_bytes() == 1 << 20
    limit.write_text("max\n")
    assert hardware.memory_bytes() > 1 << 20


def test_a_governor_that_cannot_be_seen_is_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hardware, "_GOVERNOR", tmp_path / "none")
    assert hardware.governor() is None


def test_a_machine_names_the_device_of_the_target() -> None:
    gpu = Device(arch="sm_89", name="RTX", uuid="GPU-1", driver="580", cuda="13.0")
    found = machine.describe([gpu], Target.parse("onnxruntime@sm_89"), load_before=0.5)
    assert (found.device, found.device_uuid, found.driver) == ("RTX", "GPU-1", "580")
    assert found.load_before == 0.5
    assert found.load_after is not None


def test_work_on_the_processor_names_no_gpu() -> None:
    gpu = Device(arch="sm_89", name="RTX")
    for text in ("onnxruntime@cpu", "onnxruntime@sm_86", "onnxruntime@sm_89:other"):
        assert machine.describe([gpu], Target.parse(text), 0.0).device == "cpu"
    assert machine.describe([gpu], None, 0.0).device == "cpu"
    several = Target.parse("tensorrt-rtx@sm_86+sm_89")
    assert machine.describe([gpu], several, 0.0).device == gpu.name


@pytest.mark.parametrize(
    ("stage", "text", "uuid", "there"),
    [
        (Stage.BENCHMARK, "onnxruntime@sm_89", None, True),
        (Stage.COMPILE, "tensorrt@sm_89", "GPU-1", True),
        (Stage.COMPILE, "tensorrt@sm_89", None, False),
        (Stage.COMPILE, "tensorrt-rtx@sm_89", "GPU-1", False),
        (Stage.CHECK, "tensorrt@sm_89", "GPU-1", False),
    ],
)
def test_a_build_names_the_gpu_where_it_is_for_that_gpu(
    stage: Stage, text: str, uuid: str | None, *, there: bool
) -> None:
    target = Target.parse(text)
    assert machine.target_on_device(stage, target, uuid) == (target if there else None)
