"""Watches the machine while a latency is measured, and tells under which conditions it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from enginefarm.trust_record import TrustRecord
from workers import hardware
from workers.gpu.sampler import Sampler
from workers.gpu.taken import Taken
from workers.measurement import trusting
from workers.measurement.trusting import Load, Spent, Spread

Found = TypeVar("Found")
ReadEnergy = Callable[[], int | None]
TIMES_ON_PROCESSOR = 2
"""How often a measurement is made there that was disturbed: nobody has a processor to himself."""


@dataclass(frozen=True)
class Worked(Generic[Found]):
    """What a measurement found, and what of it speaks for or against it.

    ``disturbed``: single runs were far from the others; where a spread taints, it says so already.
    """

    found: Found
    spread: Spread
    spent: Spent
    disturbed: bool = False


class Conditions:
    """The machine of a measurement: its GPU, or its processor where it has taken none."""

    def __init__(self, device: Taken | None) -> None:
        """Watch this device."""
        self._device = device
        self._onlookers = device.onlookers if device is not None else None

    @property
    def times(self) -> int:
        """How often a measurement is made that cannot be relied on."""
        return TIMES_ON_PROCESSOR if self._device is None else self._device.times

    def until_quiet(self, work: Callable[[ReadEnergy], Worked[Found]]) -> tuple[Found, TrustRecord]:
        """Do the work, again while it cannot be relied on, up to the node's limit.

        On a processor nothing taints; what was disturbed is done once more there.
        """
        done: list[Worked[Found]] = []

        def noted(energy: ReadEnergy) -> Worked[Found]:
            done.append(work(energy))
            return done[-1]

        while True:
            found, trust = self.watch(noted)
            doubtful = bool(trust.tainted) if self._device else done[-1].disturbed
            if not doubtful or len(done) >= self.times:
                return found, trust.model_copy(update={"times_measured": len(done)})

    def watch(self, work: Callable[[ReadEnergy], Worked[Found]]) -> tuple[Found, TrustRecord]:
        """Do the work, which may read the counter of energy, and tell how the machine was."""
        before = hardware.load_average()
        if self._device is None or self._onlookers is None:
            done = work(lambda: None)
            return done.found, trusting.of_processor(self._load(before))
        nvml, gpu = self._device.nvml, self._device.gpu
        self._onlookers = self._onlookers.again()
        with Sampler(nvml, gpu.uuid, self._onlookers) as sampler:
            done = work(sampler.energy_mj)
        load = self._load(before)
        return done.found, trusting.of_gpu(
            gpu, sampler.seen, self._onlookers, done.spread, done.spent, load
        )

    def _load(self, before: float) -> Load:
        return Load(hardware.governor(), before, hardware.load_average())
