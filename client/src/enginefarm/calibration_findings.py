"""What is wrong with calibration data, or worth knowing of it, in words. Pure.

The stage that reads the samples says all of it; a dry run says what is known of the file before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enginefarm.counted import counted
from enginefarm.finding import Finding, error_finding, note_finding, warning_finding
from enginefarm.precision import ENOUGH_SAMPLES, FEWEST_SAMPLES
from enginefarm.spec import Profile

RANGE_FACTOR = 4.0
"""Inputs whose range is so many times that of the held-out data were prepared otherwise."""
LENGTH_FACTOR = 2.0
"""Samples that are usually so many times as long as the held-out ones are of other traffic."""
MOST_LOOKED_AT = 2048
"""Held-out samples whose ranges and lengths are compared."""
SHOWN = 8
"""So many of the samples that have a fault are named."""


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= RANGE_FACTOR * 25 else f"{ratio:.3g}"


def beyond(shapes: Mapping[str, Sequence[int]], profile: Profile | None) -> str | None:
    """Return what of the shapes of a sample lies outside the profile, or None."""
    for name, wanted in (profile or {}).items():
        shape = shapes.get(name)
        if shape is None:
            continue
        within = len(shape) == len(wanted.min) and all(
            low <= dim <= high for low, dim, high in zip(wanted.min, shape, wanted.max, strict=True)
        )
        if not within:
            return f"{name} is {list(shape)}, the profile allows {wanted.min} to {wanted.max}"
    return None


def refused_by_all(shapes: Mapping[str, Sequence[int]], profiles: Sequence[Profile]) -> str | None:
    """Return why no profile allows a sample, in the words of the first; None if one does."""
    faults = [beyond(shapes, profile) for profile in profiles]
    return faults[0] if faults and all(faults) else None


def outside(first: Sequence[str], count: int) -> list[Finding]:
    """Refuse samples that no profile allows; ``first``: what is wrong with the first of them."""
    if count == 0:
        return []
    return [
        error_finding(
            "calibration_outside_profile",
            f"{counted(count, 'calibration sample does', 'calibration samples do')} not fit the"
            " profile.",
            where=some(first, count),
            fix="Widen the profile, or leave these samples out.",
        )
    ]


def too_few(samples: int, *, judged: bool) -> list[Finding]:
    """Refuse a handful of samples that nothing held out judges; warn of fewer than are usual."""
    if samples == 0 or (samples < FEWEST_SAMPLES and not judged):
        return [
            error_finding(
                "calibration_too_few",
                f"The calibration data has {counted(samples, 'sample')}.",
                why="Nothing held out judges what so few lead to.",
                fix=f"Give at least {FEWEST_SAMPLES}, better {ENOUGH_SAMPLES}, or an evaluation"
                " dataset that judges them.",
            )
        ]
    if samples >= ENOUGH_SAMPLES:
        return []
    return [
        warning_finding(
            "calibration_few_samples",
            f"The calibration data has {counted(samples, 'sample')}; {ENOUGH_SAMPLES} are usual.",
            why="Ranges from few samples depend on which they are.",
            fix="Give more, as different as what the engine will see.",
        )
    ]


def constant(name: str, value: float) -> Finding:
    """Warn of an input that has one value in every sample."""
    return warning_finding(
        "calibration_constant",
        f"The input {name[:80]} is {value:g} in every sample.",
        fix="Give what it really is; where that is always the same, fix it: --fix.",
    )


def range_differs(name: str, reach: float, other: float) -> list[Finding]:
    """Warn of an input whose largest values are many times those of the evaluation data."""
    if not reach or not other or 1 / RANGE_FACTOR <= reach / other <= RANGE_FACTOR:
        return []
    return [
        warning_finding(
            "calibration_range_differs",
            f"The input {name[:80]} reaches {reach:g} in the calibration data and {other:g} in the"
            f" evaluation data: {_times(reach / other)} times as much.",
            why="One of the two was not prepared as the model wants it.",
            fix="Prepare both alike, as 0..1 or as 0..255.",
        )
    ]


def length_differs(name: str, length: float, other: float) -> list[Finding]:
    """Warn of an input whose samples are usually much longer or shorter than the evaluation's."""
    if not length or not other or max(length / other, other / length) <= LENGTH_FACTOR:
        return []
    return [
        warning_finding(
            "calibration_length_differs",
            f"A sample of the input {name[:80]} is usually {length:g} long in the calibration data"
            f" and {other:g} in the evaluation data.",
            why="How large sums over a sample become depends on how much there is to sum up.",
            fix="Draw both from the same traffic, with its long and its short samples.",
        )
    ]


def rounded(names: Sequence[str]) -> list[Finding]:
    """Return a note of the inputs whose values are rounded before they are used."""
    if not names:
        return []
    return [
        note_finding(
            "calibration_rounded",
            f"The calibration data is float64, and is rounded to what the model takes:"
            f" {', '.join(names)[:200]}.",
            fix="Nothing needs to be done; float32 takes half the space.",
        )
    ]


def seen_later(what: Sequence[str]) -> Finding:
    """Say what only the stage finds out, which reads the samples."""
    return note_finding(
        "calibration_seen_later",
        f"Not known before the samples are read: {'; '.join(what)}.",
        why="The stage that calibrates looks at them first, and refuses what is of no use.",
        fix="Nothing needs to be done.",
    )


def some(rows: Sequence[str], count: int) -> str:
    """Return the first of what has a fault, and how many there are if that is more."""
    more = f", … ({count} in all)" if count > SHOWN else ""
    return "; ".join(row[:120] for row in rows[:SHOWN]) + more
