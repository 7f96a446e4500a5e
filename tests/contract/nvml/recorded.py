"""Devices whose state a test decides, behind the same port as the real ones.

``one_card`` is an H200 as NVML told of it, idle and at work; ``two_instances`` is what NVIDIA's
pages say of such a card in MIG mode, which nobody here has seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.gpu.port import DeviceLost, Errors, Event, Gpu, Process, Reading

RECORDED = Path(__file__).parent.parent / "recorded/nvml.json"


@dataclass
class State:
    """One device as it is now. ``readings`` are given in their order, the last for ever."""

    gpu: Gpu
    readings: list[Reading]
    processes: list[Process] = field(default_factory=list)
    errors: Errors = field(default_factory=Errors)
    lost: str | None = None


class RecordedNvml:
    """See :class:`workers.gpu.port.Nvml`."""

    def __init__(self, states: Sequence[State], events: Sequence[Event] = ()) -> None:
        """Show these devices, and tell of these events, one at a time."""
        self.states = {state.gpu.uuid: state for state in states}
        self.events = list(events)
        self.watched: list[str] = []

    def devices(self) -> list[Gpu]:
        """Return all that are not lost."""
        return [state.gpu for state in self.states.values() if state.lost is None]

    def reading(self, uuid: str) -> Reading:
        """Return the next reading."""
        readings = self._state(uuid).readings
        return readings.pop(0) if len(readings) > 1 else readings[0]

    def processes(self, uuid: str) -> list[Process]:
        """Return who is there."""
        return list(self._state(uuid).processes)

    def errors(self, uuid: str) -> Errors:
        """Return what is wrong."""
        return self._state(uuid).errors

    def watch(self, uuids: Sequence[str]) -> None:
        """Remember what is watched."""
        self.watched = list(uuids)

    def event(self, timeout_s: float) -> Event | None:
        """Return the next event, or wait."""
        if self.events:
            return self.events.pop(0)
        time.sleep(min(timeout_s, 0.01))
        return None

    def _state(self, uuid: str) -> State:
        state = self.states.get(uuid)
        if state is None:
            raise DeviceLost("Not Found")
        if state.lost is not None:
            raise DeviceLost(state.lost)
        return state


def recorded(name: str) -> RecordedNvml:
    """Return a machine of the recordings, as it was."""
    rows: list[dict[str, Any]] = json.loads(RECORDED.read_text("utf-8"))[name]
    return RecordedNvml([_state_of(row) for row in rows])


def _state_of(row: dict[str, Any]) -> State:
    readings = [
        Reading(**each | {"throttle": frozenset(each["throttle"])}) for each in row["readings"]
    ]
    processes = [Process(**each) for each in row.get("processes", [])]
    return State(Gpu(**row["gpu"]), readings, processes, Errors(**row["errors"]))
