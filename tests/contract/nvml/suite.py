"""What every NVML must keep, recorded or real. ``tests/gpu`` runs it on the real one."""

from __future__ import annotations

import re

import pytest

from workers.gpu.nvml import THROTTLE
from workers.gpu.port import DeviceLost, Nvml

NOBODY = "GPU-00000000-0000-0000-0000-000000000000"


class NvmlSuite:
    """A class of tests; who inherits gives the fixture ``nvml``."""

    def test_each_device_says_what_it_is(self, nvml: Nvml) -> None:
        found = nvml.devices()

        assert len({gpu.uuid for gpu in found}) == len(found) > 0
        for gpu in found:
            assert gpu.uuid.startswith(("GPU-", "MIG-"))
            assert re.fullmatch(r"sm_\d{2,3}", gpu.arch)
            assert re.fullmatch(r"\d+\.\d+", gpu.cuda)
            assert gpu.name
            assert gpu.driver
            assert gpu.memory_bytes is None or gpu.memory_bytes > 1 << 30
            assert (gpu.card is not None) == gpu.uuid.startswith("MIG-")
            assert gpu.card not in {other.uuid for other in found}

    def test_a_reading_is_within_what_a_device_can_be(self, nvml: Nvml) -> None:
        for gpu in nvml.devices():
            row = nvml.reading(gpu.uuid)
            assert row.sm_mhz is None or 0 < row.sm_mhz <= (gpu.max_sm_mhz or 10_000)
            assert row.memory_mhz is None or 0 < row.memory_mhz <= (gpu.max_memory_mhz or 20_000)
            assert row.temperature_c is None or 0 < row.temperature_c < 120
            assert row.power_w is None or 0 < row.power_w < 3000
            assert row.throttle is None or row.throttle <= set(THROTTLE.values())
            assert row.used_bytes is None or 0 <= row.used_bytes < (gpu.memory_bytes or 1 << 50)

    def test_of_an_instance_power_and_energy_are_not_told(self, nvml: Nvml) -> None:
        for gpu in nvml.devices():
            if gpu.card is not None:
                row = nvml.reading(gpu.uuid)
                assert (row.power_w, row.energy_mj) == (None, None)

    def test_energy_never_falls(self, nvml: Nvml) -> None:
        for gpu in nvml.devices():
            before, after = nvml.reading(gpu.uuid).energy_mj, nvml.reading(gpu.uuid).energy_mj
            assert (before is None) == (after is None)
            assert before is None or after is None or before <= after

    def test_processes_are_told_once_each(self, nvml: Nvml) -> None:
        for gpu in nvml.devices():
            pids = [row.pid for row in nvml.processes(gpu.uuid)]
            assert len(set(pids)) == len(pids)

    def test_errors_are_counted_or_not_known(self, nvml: Nvml) -> None:
        for gpu in nvml.devices():
            found = nvml.errors(gpu.uuid)
            assert found.uncorrected is None or found.uncorrected >= 0
            assert found.needs_reset in {None, True, False}

    def test_a_device_that_is_not_there_is_lost(self, nvml: Nvml) -> None:
        for ask in (nvml.reading, nvml.processes, nvml.errors):
            with pytest.raises(DeviceLost):
                ask(NOBODY)

    def test_where_nothing_happens_there_is_no_event(self, nvml: Nvml) -> None:
        nvml.watch([gpu.uuid for gpu in nvml.devices()])
        assert nvml.event(0.05) is None

    def test_to_watch_what_is_not_there_is_no_error(self, nvml: Nvml) -> None:
        nvml.watch([NOBODY])
        assert nvml.event(0.01) is None
