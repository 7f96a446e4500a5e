"""A watch over devices says why one is out, and the node hears it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from tests.contract.nvml.recorded import recorded
from tests.unit.workers.gpu.made import UUID, port, reading, xid
from workers.gpu.caring import SILENT, DeviceCare, read_faults, write_faults
from workers.gpu.health import LOOKS, QUIET_S
from workers.gpu.lock import try_lock
from workers.gpu.port import Event, Process
from workers.gpu.watch import Watcher, changes


def test_an_xid_takes_a_device_out_and_quiet_brings_it_back(tmp_path: Path) -> None:
    watcher = Watcher(port(events=[xid(79)]), [UUID], tmp_path)
    assert watcher.look(0, now=0) == {UUID: "Xid 79: it fell off the bus"}
    assert watcher.look(0, now=QUIET_S + 1) == {UUID: None}


def test_an_xid_of_another_device_takes_none_out(tmp_path: Path) -> None:
    watcher = Watcher(port(events=[Event("GPU-other", 79)]), [UUID], tmp_path)
    assert watcher.look(0, now=0) == {UUID: None}


def test_an_xid_of_a_card_takes_all_of_its_instances_out(tmp_path: Path) -> None:
    nvml = recorded("two_instances")
    (card,) = {state.gpu.card for state in nvml.states.values()}
    assert card is not None
    nvml.events.append(Event(card, 48))
    found = Watcher(nvml, list(nvml.states), tmp_path).look(0, now=0)
    assert len(found) == 2
    assert set(found.values()) == {"Xid 48: an uncorrectable memory error"}


def test_a_device_that_falls_off_the_bus_is_out_and_back_when_it_answers(tmp_path: Path) -> None:
    nvml = port()
    watcher = Watcher(nvml, [UUID], tmp_path)
    assert watcher.look(0, now=0) == {UUID: None}
    nvml.states[UUID].lost = "GPU is lost"
    assert watcher.look(0, now=1) == {UUID: "it does not answer: GPU is lost"}
    nvml.states[UUID].lost = None
    assert watcher.look(0, now=2) == {UUID: None}


def test_a_stranger_takes_a_device_out_and_a_job_of_this_host_does_not(tmp_path: Path) -> None:
    watcher = Watcher(port(processes=[Process(7)]), [UUID], tmp_path)
    held = try_lock(tmp_path, UUID)
    assert held is not None
    for now in range(LOOKS):
        assert watcher.look(0, now) == {UUID: None}
    held.free()
    for now in range(LOOKS):
        found = watcher.look(0, now)
    assert found == {UUID: "used by a process that is not the farm's: process 7"}


def test_nothing_is_asked_of_a_device_that_a_job_has(tmp_path: Path) -> None:
    nvml = port()
    watcher = Watcher(nvml, [UUID], tmp_path)
    held = try_lock(tmp_path, UUID)
    assert held is not None
    nvml.states[UUID].lost = "to ask is to notice"
    assert watcher.look(0, now=0) == {UUID: None}
    held.free()
    assert watcher.look(0, now=1) == {UUID: "it does not answer: to ask is to notice"}


def test_a_device_that_cannot_be_locked_is_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    watcher = Watcher(port(), [UUID], tmp_path / "file")
    assert "cannot lock a GPU" in str(watcher.look(0, now=0)[UUID])


def test_the_lock_is_free_again_after_a_look(tmp_path: Path) -> None:
    Watcher(port(reading()), [UUID], tmp_path).look(0, now=0)
    assert try_lock(tmp_path, UUID) is not None


def test_only_changes_are_said(tmp_path: Path) -> None:
    nvml = port(events=[xid(79)])
    said = changes(Watcher(nvml, [UUID], tmp_path))
    assert next(said) == {UUID: "Xid 79: it fell off the bus"}
    nvml.states[UUID].lost = "GPU is lost"
    assert next(said) == {UUID: "it does not answer: GPU is lost"}


def test_a_node_hears_of_faults_and_keeps_them_for_its_jobs(tmp_path: Path) -> None:
    kept, heard, told = tmp_path / "devices.json", list[dict[str, str]](), threading.Event()

    def changed(faults: Mapping[str, str]) -> None:
        heard.append(dict(faults))
        told.set()

    care = DeviceCare([UUID], tmp_path, kept, changed, module="workers.gpu.watch")
    care.start()  # there is no driver here: the watch ends, and the node is told so
    assert told.wait(60)
    care.stop()

    assert heard == [{UUID: SILENT}]
    assert read_faults(kept) == {UUID: SILENT}


def test_a_node_without_gpus_starts_no_watch(tmp_path: Path) -> None:
    care = DeviceCare([], tmp_path, tmp_path / "devices.json", lambda _faults: None)
    care.start()
    care.stop()
    assert read_faults(tmp_path / "devices.json") == {}


def test_faults_are_written_whole(tmp_path: Path) -> None:
    write_faults(tmp_path / "f.json", {UUID: "Xid 79"})
    assert read_faults(tmp_path / "f.json") == {UUID: "Xid 79"}
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"]
