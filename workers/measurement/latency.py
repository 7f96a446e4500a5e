"""Latency as statistics: percentiles, and when a median has settled. Pure; no clock, no runtime.

Percentiles follow trtexec: an element of the sorted list, never an interpolation, so that numbers
can be compared with what people measure there.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise

from enginefarm.report import MAX_KEPT_RUNS, MAX_MOMENTS, Moment, Percentiles

DIGITS = 6
"""Of a ms: what a clock of nanoseconds can tell."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the element of an ascending list that trtexec calls this percentile.

    trtexec reckons in single precision, which decides by one element where the product is whole.
    """
    count = len(ordered)
    exclude = int(_single(_single(1 - _single(percent / 100)) * count))
    return ordered[max(count - 1 - exclude, 0)]


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def median(ordered: Sequence[float]) -> float:
    """Return the middle of an ascending list, the mean of the two middles if there are two."""
    count = len(ordered)
    half = count // 2
    return ordered[half] if count % 2 else (ordered[half - 1] + ordered[half]) / 2


def summarize(samples_ms: Sequence[float]) -> Percentiles:
    """Return the distribution of at least one sample, in ms."""
    ordered = sorted(samples_ms)
    count = len(ordered)
    mean = math.fsum(ordered) / count
    variance = math.fsum((value - mean) ** 2 for value in ordered) / count
    std = math.sqrt(variance)
    return Percentiles(
        count=count,
        min=ordered[0],
        max=ordered[-1],
        mean=mean,
        std=std,
        cov=std / mean if mean else 0.0,
        p50=median(ordered),
        p90=percentile(ordered, 90),
        p95=percentile(ordered, 95),
        p99=percentile(ordered, 99),
    )


def over_time(starts_ms: Sequence[float], samples_ms: Sequence[float]) -> list[Moment]:
    """Return the measurement in at most 240 stretches of equally many runs, in their order."""
    size = math.ceil(len(samples_ms) / MAX_MOMENTS)
    moments = []
    for begin in range(0, len(samples_ms), size):
        part = sorted(samples_ms[begin : begin + size])
        at, middle, longest = starts_ms[begin] - starts_ms[0], median(part), part[-1]
        moments.append(
            Moment(at_ms=round(at, 3), p50=round(middle, DIGITS), max=round(longest, DIGITS))
        )
    return moments


def kept_runs(samples_ms: Sequence[float]) -> list[float]:
    """Return at most 512 of the runs, spread evenly over the measurement, in their order."""
    count = len(samples_ms)
    kept = min(count, MAX_KEPT_RUNS)
    return [round(samples_ms[number * count // kept], DIGITS) for number in range(kept)]


def settled(window_medians: Sequence[float], within: float, changes: int = 2) -> bool:
    """Tell whether the last ``changes`` changes of the windows' median were all small enough.

    Two changes in a row, since one may be luck.
    """
    if len(window_medians) <= changes:
        return False
    recent = window_medians[-(changes + 1) :]
    return all(abs(after - before) <= within * before for before, after in pairwise(recent))
