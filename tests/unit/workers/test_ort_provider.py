"""A node offers ONNX Runtime on its GPUs only where the CUDA provider can be loaded."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest

from tasks.messages import Device
from workers.backends import ort_provider
from workers.backends.onnxruntime import OnnxRuntime
from workers.backends.ort_provider import PROVIDER, WITHOUT, needed, why_not

GPU = Device(arch="sm_90", name="NVIDIA H200", uuid="GPU-1", driver="580.159.04", cuda="13.0")
CPU = Device(arch="cpu", name="c")
SHARED = Path(ort.__file__).parent / "capi/libonnxruntime_providers_shared.so"


def provider(folder: Path, *, asks_for: str = "libm.so.6") -> Path:
    """Write a library that the loader is to find another library for."""
    data = SHARED.read_bytes().replace(b"\0libm.so.6\0", f"\0{asks_for}\0".encode())
    (folder / PROVIDER).write_bytes(data)
    return folder


def test_a_library_names_what_the_loader_must_find_for_it(tmp_path: Path) -> None:
    assert {"libm.so.6", "libc.so.6"} <= set(needed(SHARED))
    assert "libq.so.6" in needed(provider(tmp_path, asks_for="libq.so.6") / PROVIDER)


def test_a_provider_whose_libraries_are_all_there_can_be_used(tmp_path: Path) -> None:
    assert why_not(provider(tmp_path), "13.0", [GPU]) is None
    assert why_not(provider(tmp_path), "12.8", [GPU]) is None


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    why = why_not(provider(tmp_path, asks_for="libq.so.6"), "13.0", [GPU])
    assert why is not None
    assert "libq.so.6" in why


@pytest.mark.parametrize("data", [None, b"", b"no library", b"\x7fELF\x02"])
def test_what_is_no_provider_is_not_used(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / PROVIDER).write_bytes(data)
    assert why_not(tmp_path, None, [GPU]) is not None


def test_a_driver_that_is_too_old_for_the_runtime_is_told_with_both(tmp_path: Path) -> None:
    old = GPU.model_copy(update={"cuda": "12.9", "driver": "575.51"})
    why = why_not(provider(tmp_path), "13.0", [GPU, old])
    assert why is not None
    for word in ("13.0", "12.9", "575.51"):
        assert word in why


def test_a_runtime_without_cuda_says_so_where_there_is_a_gpu_for_it() -> None:
    told = OnnxRuntime().describe([CPU, GPU])
    assert (told.builds, told.measures, told.on_device) == (["cpu"], ["cpu"], [])
    assert told.gpus_unused == WITHOUT
    assert OnnxRuntime().describe([CPU]).gpus_unused is None


@pytest.mark.parametrize("why", [None, "libcublas.so.13 is not there"])
def test_gpus_are_offered_only_where_the_provider_loads(
    monkeypatch: pytest.MonkeyPatch, why: str | None
) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(ort_provider, "why_not", lambda *_: why)
    old = Device(arch="sm_35", name="a GPU that the farm does not know")
    told = OnnxRuntime().describe([CPU, GPU, old])
    assert told.measures == told.builds == (["cpu"] if why else ["cpu", "sm_90"])
    assert (told.on_device, told.gpus_unused) == (told.builds[1:], why)
