"""Whether samples can be calibrated with: what is seen of them while they stream by, and judged.

Nothing here runs a model. Only numpy is used. Of the samples nothing is kept but sums and hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from enginefarm.counted import counted
from enginefarm.finding import Finding, error_finding, note_finding, warning_finding
from enginefarm.precision import ENOUGH_SAMPLES, FEWEST_SAMPLES
from enginefarm.precision_report import CalibrationData, InputRange
from enginefarm.spec import Profile
from workers.measurement.inputs import Feeds, outside
from workers.precision.seen import Seen

RANGE_FACTOR = 4.0
"""Inputs whose range is so many times that of the held-out data were prepared otherwise."""
LENGTH_FACTOR = 2.0
"""Samples that are usually so many times as long as the held-out ones are of other traffic."""
_SHOWN = 8


@dataclass
class Look:
    """What was seen of all samples."""

    seen: dict[str, Seen] = field(default_factory=dict)
    samples: int = 0
    duplicates: int = 0
    shapes: set[str] = field(default_factory=set)
    unfinite: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    _hashes: set[bytes] = field(default_factory=set)

    def add(self, feeds: Feeds, profiles: Sequence[Profile]) -> None:
        """Add one sample; one of the profiles has to allow it, if there are any."""
        number = self.samples
        self.samples += 1
        self.shapes.add(str([list(array.shape) for array in feeds.values()]))
        faults = [outside(feeds, profile) for profile in profiles]
        if faults and faults[0] is not None and all(faults):
            self.outside.append(f"sample {number}: {faults[0]}")
        digest = hashlib.sha256()
        for name, array in feeds.items():
            digest.update(np.ascontiguousarray(array).tobytes())
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                self.unfinite.append(f"sample {number}, {name}")
                continue
            self.seen.setdefault(name, Seen()).add(array)
        self.duplicates += digest.digest() in self._hashes
        self._hashes.add(digest.digest())


def look_at(samples: Iterable[Feeds], profiles: Sequence[Profile] = ()) -> Look:
    """Walk through samples once."""
    look = Look()
    for feeds in samples:
        look.add(feeds, profiles)
    return look


def judge(look: Look, held_out: Look | None) -> list[Finding]:
    """Return what is wrong with calibration data; ``held_out``: what was seen of the evaluation's.

    Errors stop the calibration.
    """
    found = [*_unusable(look), *_count(look, held_out), *_constants(look.seen)]
    if look.duplicates:
        found.append(
            warning_finding(
                "calibration_duplicates",
                f"{look.duplicates} of {look.samples} samples are the same as one before.",
                fix="Leave them out: they count twice in what percentile and entropy see.",
            )
        )
    found += _noise(look, held_out)
    if held_out is not None:
        found += _ranges(look.seen, held_out.seen)
        found += _lengths(look.seen, held_out.seen)
    return found


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


def _unusable(look: Look) -> list[Finding]:
    found = []
    if look.unfinite:
        found.append(
            error_finding(
                "calibration_not_finite",
                "NaN or infinity is in "
                f"{counted(len(look.unfinite), 'array')} of calibration samples.",
                why="One of them makes the range of every tensor behind it infinite.",
                where=_some(look.unfinite),
                fix="Leave these samples out, or find out where they come from.",
            )
        )
    if look.outside:
        found.append(
            error_finding(
                "calibration_outside_profile",
                f"{counted(len(look.outside), 'calibration sample does', 'calibration samples do')}"
                " not fit the profile.",
                where=_some(look.outside),
                fix="Widen the profile, or leave these samples out.",
            )
        )
    return found


def _count(look: Look, held_out: Look | None) -> list[Finding]:
    few = look.samples < ENOUGH_SAMPLES
    if look.samples == 0 or (look.samples < FEWEST_SAMPLES and held_out is None):
        return [
            error_finding(
                "calibration_too_few",
                f"The calibration data has {counted(look.samples, 'sample')}.",
                why="Nothing held out judges what so few lead to.",
                fix=f"Give at least {FEWEST_SAMPLES}, better {ENOUGH_SAMPLES}, or an evaluation"
                " dataset that judges them.",
            )
        ]
    if not few:
        return []
    return [
        warning_finding(
            "calibration_few_samples",
            f"The calibration data has {counted(look.samples, 'sample')};"
            f" {ENOUGH_SAMPLES} are usual.",
            why="Ranges from few samples depend on which they are.",
            fix="Give more, as different as what the engine will see.",
        )
    ]


def _constants(seen: Mapping[str, Seen]) -> list[Finding]:
    return [
        warning_finding(
            "calibration_constant",
            f"The input {name[:80]} is {row.low:g} in every sample.",
            fix="Give what it really is; where that is always the same, fix it: --fix.",
        )
        for name, row in seen.items()
        if row.elements > 1 and row.low == row.high
    ]


def _noise(look: Look, held_out: Look | None) -> list[Finding]:
    """Refuse noise where nothing held out judges it; warn of it elsewhere."""
    names = noisy(look, held_out)
    if not names:
        return []
    say = warning_finding if held_out is not None else error_finding
    return [
        say(
            "calibration_noise",
            f"The calibration data looks like random noise: {', '.join(names)[:200]}.",
            why="Noise excites other parts of a network than what it was made for.",
            fix="Give real inputs, or an evaluation dataset of them that judges the result.",
        )
    ]


def noisy(look: Look, held_out: Look | None) -> list[str]:
    """Return the inputs that look like noise, where the held-out data does not as well."""
    real = {} if held_out is None else held_out.seen
    return sorted(
        name
        for name, row in look.seen.items()
        if row.like_noise and not (name in real and real[name].like_noise)
    )


def _ranges(seen: Mapping[str, Seen], real: Mapping[str, Seen]) -> list[Finding]:
    found = []
    for name, row in seen.items():
        other = real[name].reach if name in real else 0.0
        if not row.reach or not other:
            continue
        factor = row.reach / other
        if factor > RANGE_FACTOR or factor < 1 / RANGE_FACTOR:
            found.append(
                warning_finding(
                    "calibration_range_differs",
                    f"The input {name[:80]} reaches {row.reach:g} in the calibration data and"
                    f" {other:g} in the evaluation data: {factor:.3g} times as much.",
                    why="One of the two was not prepared as the model wants it.",
                    fix="Prepare both alike, as 0..1 or as 0..255.",
                )
            )
    return found


def _lengths(seen: Mapping[str, Seen], real: Mapping[str, Seen]) -> list[Finding]:
    found = []
    for name, row in seen.items():
        one, other = row.length, real[name].length if name in real else 0.0
        if not one or not other or max(one / other, other / one) <= LENGTH_FACTOR:
            continue
        found.append(
            warning_finding(
                "calibration_length_differs",
                f"A sample of the input {name[:80]} is usually {one:g} long in the calibration data"
                f" and {other:g} in the evaluation data.",
                why="How large sums over a sample become depends on how much there is to sum up.",
                fix="Draw both from the same traffic, with its long and its short samples.",
            )
        )
    return found


def data_report(look: Look, held_out: Look | None) -> CalibrationData:
    """Return what was seen, for the report."""
    real = {} if held_out is None else held_out.seen
    return CalibrationData(
        samples=look.samples,
        duplicates=look.duplicates,
        sizes=len(look.shapes),
        inputs=[
            InputRange(
                name=name,
                min=row.low,
                max=row.high,
                mean=row.mean,
                std=row.std,
                evaluation_min=real[name].low if name in real and real[name].elements else None,
                evaluation_max=real[name].high if name in real and real[name].elements else None,
            )
            for name, row in look.seen.items()
            if row.elements
        ],
    )


def _some(rows: Sequence[str]) -> str:
    more = f", … ({len(rows)} in all)" if len(rows) > _SHOWN else ""
    return "; ".join(row[:120] for row in rows[:_SHOWN]) + more
