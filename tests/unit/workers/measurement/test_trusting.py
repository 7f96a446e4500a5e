"""What speaks against a latency, and what the record of its conditions tells."""

from __future__ import annotations

import time

import pytest

from enginefarm.trust_record import TrustRecord
from tests.unit.workers.gpu.made import UUID, gpu, port, reading
from workers.gpu.exclusive import CONTEXT_BYTES, Onlookers
from workers.gpu.port import Gpu, Process, Reading
from workers.gpu.sampler import Sampler, Seen
from workers.gpu.taken import Taken
from workers.measurement.conditions import Conditions, Worked
from workers.measurement.trusting import Load, Spent, of_gpu, of_processor

LOAD = Load("performance", 0.5, 0.7)


def record(
    *readings: Reading,
    cov: float = 0.01,
    spent: Spent | None = None,
    device: Gpu | None = None,
    processes: list[Process] | None = None,
) -> TrustRecord:
    """Return the record of a measurement in which this was seen."""
    onlookers = Onlookers(own=frozenset({1}))
    onlookers.look_before([], 0)
    onlookers.look_during(processes or [Process(1)], CONTEXT_BYTES)
    seen = Seen(list(readings) or [reading()])
    spread = ("the GPU compute time", cov)
    return of_gpu(device or gpu(), seen, onlookers, spread, spent or Spent(None, 0), LOAD)


def test_a_quiet_measurement_is_not_tainted() -> None:
    found = record()
    assert found.tainted == []
    assert found.exclusive is True
    assert found.throttle_reasons == []


@pytest.mark.parametrize(("cov", "tainted"), [(0.025, False), (0.0251, True)])
def test_a_spread_beyond_trtexecs_bound_taints(cov: float, *, tainted: bool) -> None:
    assert bool(record(cov=cov).tainted) is tainted


def test_clocks_that_were_held_down_at_any_moment_taint() -> None:
    found = record(reading(), reading(throttle=frozenset({"power cap"})), reading())
    assert found.throttle_reasons == ["power cap"]
    assert found.tainted == ["clocks were held down: power cap"]


def test_a_stranger_taints() -> None:
    found = record(processes=[Process(1), Process(2)])
    assert found.exclusive is False
    assert found.tainted == ["not alone on the device: process 2 came while the job ran"]


def test_clocks_are_told_at_the_start_in_the_middle_and_at_the_end() -> None:
    found = record(*(reading(sm_mhz=mhz) for mhz in (345, 1980, 1980, 1830)))
    assert found.sm_clock is not None
    told = (found.sm_clock.start, found.sm_clock.median, found.sm_clock.end, found.sm_clock.max)
    assert told == (345, 1905, 1830, 1980)


def test_energy_is_for_each_inference_and_power_the_mean() -> None:
    found = record(reading(power_w=100.0), reading(power_w=300.0), spent=Spent(5000, 400))
    assert (found.energy_per_inference_mj, found.power_mean_w, found.power_max_w) == (
        12.5,
        200,
        300,
    )


def test_what_is_not_told_is_absent_with_the_reason() -> None:
    found = record(Reading(sm_mhz=1980))
    assert found.power_mean_w is None
    assert found.throttle_reasons is None
    assert set(found.absent) >= {"power_mean_w", "throttle_reasons", "temperature_max_c"}
    part = record(Reading(sm_mhz=1980), device=gpu("MIG-1", card=UUID))
    assert part.mig is True
    assert "whole card" in part.absent["energy_per_inference_mj"]


def test_every_field_that_is_absent_has_a_reason() -> None:
    for found in (record(Reading()), of_processor(Load(None, 0.1, 0.2))):
        told = found.model_dump(exclude={"tainted", "absent"})
        if found.samples:
            assert {name for name, value in told.items() if value is None} == set(found.absent)
        else:
            assert {"governor", "exclusive"} == set(found.absent)


def test_a_processor_is_shared_and_its_record_taints_nothing() -> None:
    found = of_processor(LOAD)
    assert found.exclusive is None
    assert (found.governor, found.load_before, found.load_after) == ("performance", 0.5, 0.7)
    assert found.tainted == []


def test_a_device_is_looked_at_from_the_first_moment_to_the_last() -> None:
    nvml, onlookers = port(*(reading(sm_mhz=mhz) for mhz in (100, 200))), Onlookers(frozenset())
    with Sampler(nvml, UUID, onlookers) as sampler:
        assert [row.sm_mhz for row in sampler.seen.readings] == [100]
    assert sampler.seen.readings[-1].sm_mhz == 200


def test_a_device_that_is_lost_while_it_is_measured_taints() -> None:
    nvml = port()
    conditions = Conditions(Taken(nvml, gpu(), Onlookers(frozenset()), times=2))

    def work(energy: object) -> Worked[str]:
        nvml.states[UUID].lost = "GPU is lost"
        return Worked("found", ("the latency", 0.0), Spent(None, 1))

    found, trust = conditions.watch(work)

    assert found == "found"
    assert trust.tainted == ["the device did not answer: GPU is lost"]


def test_who_has_left_before_a_measurement_is_made_again_does_not_taint_it() -> None:
    nvml = port(processes=[Process(7)])
    onlookers = Onlookers(frozenset({1}))
    onlookers.look_before([Process(7)], 0)
    conditions = Conditions(Taken(nvml, gpu(), onlookers, times=2))

    def work(energy: object) -> Worked[None]:
        return Worked(None, ("the latency", 0.0), Spent(None, 1))

    assert conditions.watch(work)[1].tainted
    nvml.states[UUID].processes = [Process(1)]
    assert conditions.watch(work)[1].tainted == []


def test_the_sampler_looks_again_and_again_while_work_goes_on() -> None:
    with Sampler(port(), UUID, Onlookers(frozenset())) as sampler:
        deadline = time.monotonic() + 30
        while len(sampler.seen.readings) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(sampler.seen.readings) >= 4
