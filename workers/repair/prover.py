"""Prove a pass: run the model before and after it in ONNX Runtime on the same seeded inputs.

The graph is run as it is written, without rewriting, at the least, usual and largest shapes of each
profile, or twice where shapes are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enginefarm.errors import JobFailed
from enginefarm.repair_report import Proof
from enginefarm.spec import Profile
from workers.backends.base import Array, Runner
from workers.backends.ort_session import open_reference
from workers.diagnosis import shorten
from workers.measurement import inputs
from workers.measurement.original import Original
from workers.repair.base import Ground

MOST_ELEMENTS = 4_000_000
"""Larger inputs are not run: a proof must stay quick. The smaller shapes are."""
ENDS = ("min", "opt", "max")
RELATIVE = 1e-5
"""How much an element may differ in an exact pass, of its own value and of a usual one."""

Outputs = dict[str, Array | None]


class Unproven(Exception):
    """A model could not be run; the text is the end of a sentence."""


@dataclass(frozen=True)
class Ran:
    """What a model gave for each set of inputs."""

    outputs: list[Outputs]


class Prover:
    """Runs versions of one model on the same inputs."""

    def __init__(self, ground: Ground, alive: Callable[[], None] = lambda: None) -> None:
        """Make the inputs when they are first needed; ``alive`` is called before each run."""
        self._ground = ground
        self._alive = alive
        self._feeds: list[inputs.Feeds] | None = None

    def run(self, path: Path) -> Ran:
        """Run a version of the model; what is fixed and still an input of it is fed as well.

        Raises:
            Unproven: it does not run.
        """
        try:
            feeds = self.feeds
            runner = Original(open_reference(path), self._ground.fixed)
            names = {view.name for view in runner.inputs}
            given = [{n: array for n, array in row.items() if n in names} for row in feeds]
            return Ran([self._outputs(runner, row) for row in given])
        except JobFailed as error:
            raise Unproven(f"{error.message} {error.why}") from error
        except Unproven:
            raise
        except Exception as error:
            raise Unproven(f"ONNX Runtime says: {shorten(str(error), 300)}") from error

    def _outputs(self, runner: Runner, feeds: inputs.Feeds) -> Outputs:
        self._alive()
        found = runner.run(feeds)
        return {view.name: array for view, array in zip(runner.outputs, found, strict=True)}

    def compare(self, before: Ran, after: Ran) -> Proof:
        """Return by how much two versions differ.

        Raises:
            Unproven: an output is missing, or has another type or shape.
        """
        found = [
            _difference(name, wanted, late.get(name))
            for early, late in zip(before.outputs, after.outputs, strict=True)
            for name, wanted in early.items()
            if wanted is not None and self._is_wanted(name)
        ]
        errors = [row for row in found if row is not None]
        return Proof(
            shapes=[{n: list(array.shape) for n, array in feeds.items()} for feeds in self.feeds],
            outputs=len(found),
            bit_equal=len(found) > 0 and all(row is None for row in found),
            max_abs_error=max((row[0] for row in errors), default=0.0) if found else None,
            max_rel_error=max((row[1] for row in errors), default=0.0) if found else None,
        )

    def changed(self, before: Ran, after: Ran) -> str | None:
        """Say which output is not what it was, as :func:`not_same` judges; None if none is."""
        for early, late in zip(before.outputs, after.outputs, strict=True):
            for name, wanted in early.items():
                found = late.get(name)
                if wanted is None or found is None or not self._is_wanted(name):
                    continue
                count = not_same(wanted, found)
                if count:
                    return f"{count} of {wanted.size} elements of output {name} are not the same"
        return None

    def _is_wanted(self, name: str) -> bool:
        """Tell whether an output is compared: not one that was asked to be left out."""
        kept = self._ground.keep_outputs
        return not kept or name in kept

    @property
    def feeds(self) -> list[inputs.Feeds]:
        """The sets of inputs that every version is run on."""
        if self._feeds is None:
            self._feeds = list(_made(self._ground))
        return self._feeds


def _made(ground: Ground) -> list[inputs.Feeds]:
    """Return seeded inputs at every shape that is small enough, the smallest first."""
    profiles: Sequence[Profile | None] = ground.profiles or [None]
    made: list[inputs.Feeds] = []
    tried: set[str] = set()
    left_out = 0
    for profile in profiles:
        for seed, which in enumerate(ENDS):
            shapes = {v.name: inputs.shape_at(v, profile, which) for v in ground.inputs}
            if str(shapes) in tried and seed > 1:
                continue
            tried.add(str(shapes))
            if sum(math.prod(shape) for shape in shapes.values()) > MOST_ELEMENTS:
                left_out += 1
                continue
            rng = np.random.default_rng(seed)
            made.append(inputs.synthetic(ground.inputs, profile, ground.synthetic, rng, which))
    if not made:
        raise Unproven(f"all {left_out} shapes have more than {MOST_ELEMENTS:,} input elements")
    return made


def not_same(before: Array, after: Array) -> int:
    """Count the elements of an output, in two versions of one shape and type, that are not equal.

    Integers and bools must be exactly equal. A float may differ by 1e-5 of its own value before,
    and by 1e-5 of a usual value of the output: the median of |before| where that is finite and not
    zero. The first alone would ask for digits that a sum near zero does not have; the largest value
    as scale would let one huge element, such as the -3e38 of a mask, hide what all others are.
    """
    if before.tobytes() == after.tobytes():
        return 0
    if before.dtype.kind != "f":
        return int(np.count_nonzero(before != after))
    left, right = before.astype(np.float64), after.astype(np.float64)
    sizes = np.abs(left)
    told = sizes[np.isfinite(sizes) & (sizes > 0)]
    usual = float(np.median(told)) if told.size else 0.0
    same = np.isclose(right, left, rtol=RELATIVE, atol=RELATIVE * usual, equal_nan=True)
    return int(np.count_nonzero(~same))


def _difference(name: str, before: Array, after: Array | None) -> tuple[float, float] | None:
    """Return the largest error, and the same relative to the largest value; None if bit-equal."""
    if after is None or after.dtype != before.dtype or after.shape != before.shape:
        told = "nothing" if after is None else f"{after.dtype} {list(after.shape)}"
        raise Unproven(f"output {name} is {told} instead of {before.dtype} {list(before.shape)}")
    if before.tobytes() == after.tobytes():
        return None
    if before.dtype.kind not in "fiub":
        raise Unproven(f"output {name} differs")
    left, right = before.astype(np.float64), after.astype(np.float64)
    both = np.isfinite(left) & np.isfinite(right)
    same = np.isnan(left) & np.isnan(right) | (left == right)
    if not np.all(both | same):
        raise Unproven(f"output {name} is finite in one version and not in the other")
    error = float(np.max(np.abs(left - right)[both], initial=0.0))
    scale = float(np.max(np.abs(left)[both], initial=0.0))
    return error, error / scale if scale else error
