"""The real implementation over a driver whose answers a test decides."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

from tests.contract.nvml.driver import CARD, INSTANCE, LOST, NOT_SUPPORTED, Driver
from tests.contract.nvml.suite import NvmlSuite
from workers import hardware
from workers.gpu.nvml import PynvmlNvml, opened, reasons
from workers.gpu.port import DeviceLost, Errors, Event


class TestOverADriver(NvmlSuite):
    @pytest.fixture(params=[False, True], ids=["card", "instances"])
    def nvml(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PynvmlNvml:
        Driver(mig=request.param).install(monkeypatch)
        return PynvmlNvml()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    made.install(monkeypatch)
    return made


def test_without_a_driver_there_is_no_nvml(driver: Driver) -> None:
    driver.answers["nvmlInit"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    with opened() as found:
        assert found is None


def test_a_card_in_mig_mode_is_its_instances(driver: Driver) -> None:
    driver.mig = True
    driver.answers["nvmlDeviceGetMigMode"] = lambda _handle: [1, 1]
    (gpu,) = PynvmlNvml().devices()
    assert (gpu.uuid, gpu.card, gpu.arch) == (INSTANCE, CARD, "sm_90")
    assert PynvmlNvml().reading(INSTANCE).sm_mhz == 1980


def test_what_a_device_does_not_tell_is_absent(driver: Driver) -> None:
    for name in ("TotalEnergyConsumption", "Temperature", "EccMode", "RemappedRows"):
        driver.answers[f"nvmlDeviceGet{name}"] = NOT_SUPPORTED
    nvml = PynvmlNvml()
    (gpu,) = nvml.devices()
    assert gpu.ecc is None
    assert (nvml.reading(CARD).energy_mj, nvml.reading(CARD).temperature_c) == (None, None)
    assert nvml.errors(CARD).needs_reset is None


@pytest.mark.parametrize(
    "status", [LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_INSUFFICIENT_POWER]
)
def test_a_device_that_fell_off_the_bus_is_lost_and_no_error_of_ours(
    driver: Driver, status: int
) -> None:
    driver.answers["nvmlDeviceGetClockInfo"] = status
    with pytest.raises(DeviceLost):
        PynvmlNvml().reading(CARD)


@pytest.mark.parametrize(
    "says", [LOST, pynvml.NVML_ERROR_INSUFFICIENT_POWER, pynvml.NVML_ERROR_NO_PERMISSION]
)
def test_a_card_that_is_lost_or_is_kept_from_us_hides_no_other(
    driver: Driver, says: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def second_only(index: int) -> str:
        if index == 0:
            raise pynvml.NVMLError(says)
        return CARD

    driver.answers["nvmlDeviceGetCount"] = lambda: 2
    driver.answers["nvmlDeviceGetHandleByIndex"] = second_only
    assert [(gpu.uuid, gpu.number) for gpu in PynvmlNvml().devices()] == [(CARD, 1)]
    assert [row.uuid for row in hardware.devices(["1"], PynvmlNvml())] == [None, CARD]
    kept_from_us = says == pynvml.NVML_ERROR_NO_PERMISSION
    assert ("GPU 0 is left out: " in capsys.readouterr().err) is not kept_from_us


@pytest.mark.parametrize(
    "says", [pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, pynvml.NVML_ERROR_CORRUPTED_INFOROM]
)
def test_what_a_virtual_or_a_worn_device_cannot_tell_of_its_memory_is_absent(
    driver: Driver, says: int
) -> None:
    for name in ("EccMode", "TotalEccErrors", "RemappedRows", "RetiredPagesPendingStatus"):
        driver.answers[f"nvmlDeviceGet{name}"] = says
    (gpu,) = PynvmlNvml().devices()
    assert gpu.ecc is None
    assert PynvmlNvml().errors(CARD) == Errors(uncorrected=None, needs_reset=None)


def test_a_card_that_shares_the_hosts_memory_is_a_device_all_the_same(driver: Driver) -> None:
    driver.answers["nvmlDeviceGetMemoryInfo"] = NOT_SUPPORTED
    (gpu,) = PynvmlNvml().devices()
    assert (gpu.uuid, gpu.memory_bytes) == (CARD, None)


def test_any_other_answer_is_not_swallowed(driver: Driver) -> None:
    driver.answers["nvmlDeviceGetClockInfo"] = pynvml.NVML_ERROR_INVALID_ARGUMENT
    with pytest.raises(pynvml.NVMLError):
        PynvmlNvml().reading(CARD)


def test_pending_rows_and_pages_need_a_reset(driver: Driver) -> None:
    driver.answers["nvmlDeviceGetRemappedRows"] = lambda _handle: (0, 1, 1, 0)
    driver.answers["nvmlDeviceGetTotalEccErrors"] = lambda *_: 3
    found = PynvmlNvml().errors(CARD)
    assert (found.uncorrected, found.needs_reset) == (3, True)


def test_a_process_that_computes_and_draws_is_one_that_computes(driver: Driver) -> None:
    row = SimpleNamespace(pid=7, usedGpuMemory=1 << 30)
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = lambda _handle: [row]
    driver.answers["nvmlDeviceGetGraphicsRunningProcesses"] = lambda _handle: [
        row,
        SimpleNamespace(pid=5, usedGpuMemory=None),
    ]
    assert [(each.pid, each.compute) for each in PynvmlNvml().processes(CARD)] == [
        (5, False),
        (7, True),
    ]


def test_an_xid_is_told_with_its_card(driver: Driver) -> None:
    driver.xids = [79]
    nvml = PynvmlNvml()
    nvml.watch([CARD])
    assert nvml.event(0.01) == Event(CARD, 79)
    assert nvml.event(0.01) is None


def test_idle_and_chosen_clocks_hold_nothing_down() -> None:
    assert reasons(0x1 | 0x2) == frozenset()
    assert reasons(0x4 | 0x40) == {"power cap", "thermal, by hardware"}
