"""Whether samples can be calibrated with: what is seen of them while they stream by, and judged.

Nothing here runs a model. Only numpy is used. Of the samples nothing is kept but sums and hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from enginefarm import calibration_findings as say
from enginefarm.counted import counted
from enginefarm.finding import Finding, error_finding, warning_finding
from enginefarm.precision_report import CalibrationData, InputRange
from enginefarm.spec import Profile
from workers.measurement.inputs import Feeds
from workers.precision.seen import Seen


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
        fault = say.refused_by_all({name: row.shape for name, row in feeds.items()}, profiles)
        if fault is not None:
            self.outside.append(f"sample {number}: {fault}")
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
    found = [*_unusable(look), *say.too_few(look.samples, judged=held_out is not None)]
    found += _constants(look.seen)
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
        found += _against(look.seen, held_out.seen)
    return found


def _unusable(look: Look) -> list[Finding]:
    found = []
    if look.unfinite:
        found.append(
            error_finding(
                "calibration_not_finite",
                "NaN or infinity is in "
                f"{counted(len(look.unfinite), 'array')} of calibration samples.",
                why="One of them makes the range of every tensor behind it infinite.",
                where=say.some(look.unfinite, len(look.unfinite)),
                fix="Leave these samples out, or find out where they come from.",
            )
        )
    found += say.outside(look.outside, len(look.outside))
    return found


def _constants(seen: Mapping[str, Seen]) -> list[Finding]:
    return [
        say.constant(name, row.low)
        for name, row in seen.items()
        if row.elements > 1 and row.low == row.high
    ]


def _noise(look: Look, held_out: Look | None) -> list[Finding]:
    """Refuse noise where nothing held out judges it; warn of it elsewhere."""
    names = noisy(look, held_out)
    if not names:
        return []
    finding = warning_finding if held_out is not None else error_finding
    return [
        finding(
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


def _against(seen: Mapping[str, Seen], real: Mapping[str, Seen]) -> list[Finding]:
    """Hold ranges, then lengths, against those of the evaluation data."""
    both = [(name, row, real[name]) for name, row in seen.items() if name in real]
    ranges = [say.range_differs(name, row.reach, other.reach) for name, row, other in both]
    lengths = [say.length_differs(name, row.length, other.length) for name, row, other in both]
    return [found for rows in (*ranges, *lengths) for found in rows]


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
