"""How many times as many inputs a second one engine takes as another, both run in turns.

A window of one is followed by a window of the other, and the next pair goes the other way round, so
that whatever else the machine does meets both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from enginefarm.target import Target
from workers.backends.base import Runner
from workers.backends.onnxruntime import OnnxRuntime
from workers.measurement.inputs import Feeds

PAIRS = 10
WINDOW_S = 0.1
CPU = Target(backend="onnxruntime", arch="cpu")


@dataclass(frozen=True)
class Ratio:
    """Throughput over throughput: the middle of all pairs of windows, and the two quartiles."""

    middle: float
    low: float
    high: float

    @property
    def label(self) -> str:
        """``slower`` or ``faster`` if eight of ten pairs at least say so, else ``alike``."""
        if self.high < 1:
            return "slower"
        return "faster" if self.low > 1 else "alike"


def ratio_of(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Compare seconds for a run of both engines, window by window, as the second's throughput."""
    pairs = sorted(one / other for one, other in zip(first, second, strict=True))
    quarter = len(pairs) // 4
    return Ratio(middle=median(pairs), low=pairs[quarter], high=pairs[-1 - quarter])


def compared(first: Path, second: Path, feeds: Sequence[Feeds]) -> Ratio:
    """Run two engines of ONNX Runtime on the CPU in turns, on the same inputs."""
    runners = [OnnxRuntime().load(path, CPU, 0) for path in (first, second)]
    for runner in runners:
        _window(runner, feeds)
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(PAIRS):
        for which in (0, 1) if pair % 2 else (1, 0):
            seconds[which].append(_window(runners[which], feeds))
    return ratio_of(*seconds)


def _window(runner: Runner, feeds: Sequence[Feeds]) -> float:
    """Return the seconds that one run takes, over as many as fill a window."""
    names = {view.name for view in runner.inputs}
    rows = [{name: row[name] for name in names} for row in feeds]
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < WINDOW_S or count < len(rows):
        runner.run(rows[count % len(rows)])
        count += 1
    return spent / count
