"""A job's child takes a device before it loads a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enginefarm.errors import JobFailed
from tests.contract.nvml.recorded import RecordedNvml
from tests.unit.workers.gpu.made import UUID, port
from tests.unit.workers.measurement.test_timing import Sink
from workers.gpu import nvml, taken
from workers.gpu.exclusive import Onlookers
from workers.gpu.lock import try_lock
from workers.gpu.need import DeviceNeed
from workers.gpu.port import Process
from workers.settings import child_environment


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], str]:
    """Return a way to tell what a runtime that is loaded now would see."""
    monkeypatch.setattr(taken, "SETTLE_S", 0.0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return lambda: child_environment(tmp_path)["CUDA_VISIBLE_DEVICES"]


def driver(monkeypatch: pytest.MonkeyPatch, shown: RecordedNvml | None) -> None:
    """Have this NVML opened."""

    @contextmanager
    def opened() -> Iterator[RecordedNvml | None]:
        yield shown

    monkeypatch.setattr(nvml, "opened", opened)


def need(folder: Path, *, shared: bool = False) -> DeviceNeed:
    """Return a need of the one device."""
    return DeviceNeed(devices=[UUID], shared=shared, lock_folder=folder, wait_s=0)


def release(found: taken.Taken) -> None:
    """End the process, as far as the lock is concerned."""
    assert found.lock is not None
    found.lock.free()


def test_a_taken_device_is_locked_and_the_only_one_that_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Callable[[], str]
) -> None:
    driver(monkeypatch, port())
    with taken.taken(need(tmp_path), Sink()) as found:
        assert found is not None
        assert found.gpu.uuid == UUID
        assert try_lock(tmp_path, UUID) is None
        assert seen() == UUID
    # Its context on the device lives as long as the process does, so the lock does, too.
    assert try_lock(tmp_path, UUID) is None
    release(found)
    assert try_lock(tmp_path, UUID) is not None


def test_who_is_there_before_the_job_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(monkeypatch, port(processes=[Process(7)]))
    with taken.taken(need(tmp_path), Sink()) as found:
        assert found is not None
        assert found.onlookers.verdict()[0] is False
    release(found)
    with taken.taken(need(tmp_path, shared=True), Sink()) as found:
        assert found is not None
        assert found.onlookers.strangers == []  # who shares is not looked at


def test_a_job_without_a_device_sees_none_and_one_without_a_need_what_it_saw(
    seen: Callable[[], str],
) -> None:
    with taken.taken(None, Sink()) as found:
        assert found is None
        assert seen() == "all"
    with taken.taken(DeviceNeed(), Sink()) as found:
        assert found is None
        assert seen() == ""


def test_a_device_that_does_not_answer_at_the_end_was_not_worked_on_undisturbed() -> None:
    shown = port(processes=[Process(1)])
    held = taken.Taken(shown, shown.devices()[0], Onlookers(frozenset({1})), times=1)
    assert taken.disturbed(held, shared=False) is None
    shown.states[UUID].lost = "GPU is lost"
    assert taken.disturbed(held, shared=False) == "the GPU does not answer: GPU is lost"


@pytest.mark.parametrize("gone", ["driver", "device"])
def test_a_device_that_is_gone_is_the_nodes_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    shown = port()
    shown.states[UUID].lost = "GPU is lost"
    driver(monkeypatch, None if gone == "driver" else shown)
    with pytest.raises(JobFailed) as failed, taken.taken(need(tmp_path), Sink()):
        pass
    assert failed.value.code == "device_lost"
