"""At which shapes an engine is measured, how often, and what stands in the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginefarm.errors import JobFailed
from enginefarm.report import LatencyReport
from enginefarm.spec import BenchmarkOptions, Profile, ShapeRange
from enginefarm.target import Target
from tests.contract.backends import made
from tests.unit.workers.gpu.made import UUID, gpu, port
from tests.unit.workers.measurement.test_timing import Clock, Sink
from workers import benchmark
from workers.backends.base import ModelSource, RunTimes
from workers.backends.onnxruntime import open_backend
from workers.gpu.exclusive import Onlookers
from workers.gpu.port import Process
from workers.gpu.taken import Taken
from workers.measurement import one_shape
from workers.measurement.conditions import Conditions
from workers.measurement.device import OnDevice
from workers.measurement.one_shape import Loaded, at_batch, latency_at, places
from workers.measurement.request import Request
from workers.measurement.timing import Measured, measure
from workers.measurement.trusting import Spent

PROFILE: Profile = {"x": ShapeRange(min=[1, 16], opt=[4, 16], max=[8, 16])}
CPU = Target(backend="onnxruntime", arch="cpu")
CALM, SPIKED = [2.0], [*[2.0] * 18, 70.0, 2.0]
QUICK = BenchmarkOptions(warmup_ms=1, min_iterations=10, min_duration_ms=5, max_duration_ms=100)


def test_each_profile_is_measured_at_its_opt_and_then_at_each_batch() -> None:
    found = list(places([PROFILE, None], []))
    assert [(place.profile, place.swept) for place in found] == [(PROFILE, False), (None, False)]
    swept = [place for place in places([PROFILE], [1, 8]) if place.swept]
    assert [place.profile["x"].opt for place in swept if place.profile] == [[1, 16], [8, 16]]


def test_no_shape_is_measured_twice() -> None:
    found = list(places([PROFILE], [4, 8, 8]))
    assert [(row.profile["x"].opt[0], row.swept) for row in found if row.profile] == [
        (4, False),
        (8, True),
    ]


@pytest.mark.parametrize("batch", [9, 100])
def test_a_batch_that_no_profile_allows_is_refused(batch: int) -> None:
    with pytest.raises(JobFailed) as failed:
        at_batch(PROFILE, batch)
    assert failed.value.code == "batch_outside_profile"
    assert "x may have 1 to 8" in failed.value.why


def test_inputs_that_share_no_batch_cannot_be_swept() -> None:
    other = PROFILE | {"state": ShapeRange(min=[2, 1], opt=[2, 4], max=[2, 8])}
    for profile in (other, None):
        with pytest.raises(JobFailed) as failed:
            at_batch(profile, 1)
        assert failed.value.code == "batch_outside_profile"


def measured(folder: Path, device: Taken | None) -> LatencyReport:
    """Measure a small engine on the processor, as if it were on a device that was taken."""
    path = made.save(folder / "m", made.dense())
    source = ModelSource(path=path, target=CPU, profiles=[PROFILE])
    request = Request(source, path, None, None, {}, 0, QUICK)
    engine = open_backend().load(path, CPU, 1)
    loaded = Loaded(engine, 1.0, lambda: 1, Conditions(device))
    (place,) = places([PROFILE], [])
    return latency_at(place, request, loaded, Sink())


def test_a_measurement_that_cannot_be_relied_on_is_repeated_up_to_a_limit(tmp_path: Path) -> None:
    nvml = port(processes=[Process(7), Process(8)])
    onlookers = Onlookers(frozenset({1}))
    onlookers.look_before([Process(7)], 0)

    found = measured(tmp_path, Taken(nvml, gpu(), onlookers, times=3))

    assert found.trust is not None
    assert found.trust.times_measured == 3
    assert any("process 7" in reason for reason in found.trust.tainted)
    assert nvml.states[UUID].processes
    assert found.device is None
    assert found.device_reason is not None


@pytest.mark.parametrize(
    ("rounds", "times", "longest"),
    [([CALM], 1, 2.0), ([SPIKED, CALM], 2, 2.0), ([SPIKED, SPIKED, CALM], 2, 70.0)],
    ids=["calm", "then calm", "never calm"],
)
def test_on_the_processor_it_is_made_once_more_if_it_was_disturbed_and_has_a_record(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rounds: list[list[float]],
    times: int,
    longest: float,
) -> None:
    left = iter(rounds)

    def timed(once: Callable[[], object], options: BenchmarkOptions, *_: object) -> Measured:
        clock = Clock()
        return measure(clock.work(next(left)), options, clock, Sink())

    monkeypatch.setattr(one_shape, "measure", timed)
    found = measured(tmp_path, None)

    assert found.end_to_end_ms.max == pytest.approx(longest)
    assert found.end_to_end_ms.p50 == pytest.approx(2.0)
    assert any("times P50" in note for note in found.notes) is (longest > 2)
    assert found.trust is not None
    assert found.trust.times_measured == times
    assert found.trust.load_after is not None
    assert found.trust.exclusive is None


def test_an_engine_is_measured_and_compared_at_the_shapes_that_are_asked_for(
    tmp_path: Path,
) -> None:
    path = made.save(tmp_path / "m", made.dense())
    source = ModelSource(path=path, target=CPU, profiles=[PROFILE])
    options = QUICK.model_copy(update={"shapes": [{"x": [2, 16]}, {"x": [8, 16]}]})
    request = Request(source, path, None, None, {}, 0, options)
    found = benchmark.run(request, open_backend(), Sink(), lambda: 1)
    assert [row["shapes"] for row in found["latency"]] == [{"x": [2, 16]}, {"x": [8, 16]}]
    assert found["accuracy"]["samples"] == 4 * 2 + 4 * 8


class Counted:
    """An engine, or the same on a device, that counts its runs."""

    threads, cuda_graph = 1, False

    def __init__(self) -> None:
        self.runs = 0

    def run(self, *_: object) -> RunTimes:
        self.runs += 1
        return RunTimes(h2d=0.1, enqueue=0.1, compute=1.0, d2h=0.1)


@pytest.mark.parametrize("on_device", [True, False])
def test_energy_is_that_of_the_runs_it_is_divided_by(tmp_path: Path, *, on_device: bool) -> None:
    """On a device those of its own measurement; what went before, from arrays, is not theirs."""
    engine, device, counter = Counted(), Counted(), iter([100, 1100, 5100])
    path = made.save(tmp_path / "m", made.dense())
    request = Request(ModelSource(path=path, target=CPU), path, None, None, {}, 0, QUICK)
    loaded: Any = Loaded(engine, 1.0, lambda: 1, Conditions(None))  # type: ignore[arg-type]  # it runs
    opened = OnDevice(device) if on_device else OnDevice(reason="it has none")

    done = one_shape._measured(request, loaded, {}, (opened, lambda: next(counter)), Sink())

    assert done.spent == (Spent(4000, device.runs) if on_device else Spent(1000, engine.runs))
    assert done.spent.inferences > 0
