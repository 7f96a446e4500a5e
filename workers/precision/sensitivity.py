"""Which layers an int8 model loses most by.

First a cheap estimate of all of them: the noise that int8 adds to a layer's weights, to what it
reads and to what it writes, against the signal, in one walk through some samples. Then those that
look worst are run one at a time in int8, all others as they came. At last the costliest are given
back one after another, twice as many each time, which says how many have to stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import onnx

from enginefarm.errors import JobFailed
from enginefarm.sensitivity_report import (
    MAX_LAYERS,
    KeptStep,
    LayerSensitivity,
    SensitivityReport,
)
from workers.measurement.accuracy import OutputTally
from workers.measurement.inputs import Feeds
from workers.precision import refusals
from workers.precision.keeping import doubling
from workers.precision.running import Outputs, opened, outputs_of
from workers.precision.switching import (
    NOISE,
    POWER,
    SWITCHES,
    Pair,
    pairs_of,
    switched,
    watched,
)

ESTIMATE_SAMPLES = 32
HOW = (
    "one layer at a time in int8, all others as they came, the worst output against the model as it"
    " came, in ONNX Runtime on the CPU; untried layers by the signal to noise of their own tensors"
)
_SAME = 1e-6


@dataclass
class Bench:
    """What layers are tried with. ``few``: samples that are held; ``every``: all, streaming."""

    plain: onnx.ModelProto
    made: onnx.ModelProto
    few: Sequence[Feeds]
    every: Iterable[Feeds]
    folder: Path
    alive: Callable[[str, str], None]


def sensitivity(bench: Bench, layers: Sequence[str], most: int) -> SensitivityReport | str:
    """Return what each layer costs, ``most`` of them tried, or why that cannot be told.

    ``layers`` are the names of the nodes that compute in int8. The models have their external data
    in memory, and name their nodes alike.
    """
    try:
        return _measured(bench, layers, most)
    except JobFailed as error:
        if error.code != refusals.NOT_RUN:
            raise
        return f"the model with a switch for each layer does not run: {error.why}"


def _measured(bench: Bench, layers: Sequence[str], most: int) -> SensitivityReport | str:
    pairs = pairs_of(bench.plain.graph, bench.made.graph, layers)
    operators = {node.name: node.op_type for node in bench.plain.graph.node}
    rows, count = _estimated(bench, pairs, {name: operators[name] for name in layers})
    trial = _Trial(bench, pairs)
    if trial.loss_of(()).cosine > _SAME:
        return "without its quantizations the model does not compute what it did"
    if not trial.compared:
        return "no output is a tensor of fractions"
    rows.sort(key=lambda row: (math.inf if row.sqnr_db is None else row.sqnr_db, row.node))
    tried = [_tried(trial, row, at) for at, row in enumerate(rows[:most])]
    tried.sort(key=lambda row: (-(row.cosine_loss or 0.0), row.node))
    names = [row.node for row in tried]
    kept = sorted({0, *(doubling(len(names)) if names else ())})
    steps = [
        KeptStep(kept=each, cosine=1 - trial.loss_of(set(layers) - set(names[:each])).cosine)
        for each in kept
    ]
    return SensitivityReport(
        how=HOW,
        layers_count=len(rows),
        tried=len(tried),
        estimate_samples=count,
        trial_samples=len(bench.few),
        layers=[*tried, *rows[most:]][:MAX_LAYERS],
        steps=steps,
    )


def _tried(trial: _Trial, row: LayerSensitivity, at: int) -> LayerSensitivity:
    trial.bench.alive("trying layers in int8", f"{at + 1}, {row.node[:80]}")
    loss = trial.loss_of({row.node})
    return row.model_copy(update={"cosine_loss": loss.cosine, "snr_db": loss.snr_db})


def _estimated(
    bench: Bench, pairs: Sequence[Pair], operators: dict[str, str]
) -> tuple[list[LayerSensitivity], int]:
    """Return the layers by the noise of their own tensors, and on how many samples."""
    noise, power = np.zeros(len(pairs)), np.zeros(len(pairs))
    runner = opened(watched(bench.plain, bench.made, pairs), bench.folder)
    count = 0
    for feeds in islice(bench.every, ESTIMATE_SAMPLES):
        found = outputs_of(runner, feeds)
        noise += [_number(found, f"{NOISE}_{at}") for at in range(len(pairs))]
        power += [_number(found, f"{POWER}_{at}") for at in range(len(pairs))]
        count += 1
        bench.alive("estimating what layers lose", f"{count} samples")
    shares = [
        float(lost / there) if there > 0 else 0.0 for lost, there in zip(noise, power, strict=True)
    ]
    return [_layer(name, op, pairs, shares) for name, op in operators.items()], count


def _number(found: Outputs, name: str) -> float:
    value = found[name]
    return 0.0 if value is None else float(value)


def _layer(
    name: str, operator: str, pairs: Sequence[Pair], shares: Sequence[float]
) -> LayerSensitivity:
    parts: dict[str, float] = {}
    for pair, share in zip(pairs, shares, strict=True):
        if name in pair.layers:
            parts[pair.part] = parts.get(pair.part, 0.0) + share
    return LayerSensitivity(
        node=name,
        operator=operator,
        weight_sqnr_db=_db(parts.get("weight")),
        input_sqnr_db=_db(parts.get("input")),
        output_sqnr_db=_db(parts.get("output")),
        sqnr_db=_db(sum(parts.values())),
    )


def _db(share: float | None) -> float | None:
    """Return signal to noise in dB of a share of noise."""
    return -10 * math.log10(share) if share and math.isfinite(share) else None


@dataclass
class Loss:
    """How far the worst output is from the original's."""

    cosine: float
    snr_db: float | None


@dataclass
class _Trial:
    """The model with switches, and the original's outputs."""

    bench: Bench
    pairs: Sequence[Pair]
    compared: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        plain = opened(self.bench.plain, self.bench.folder)
        self._wanted = [outputs_of(plain, feeds) for feeds in self.bench.few]
        model = switched(self.bench.plain, self.bench.made, self.pairs)
        self._runner = opened(model, self.bench.folder)

    def loss_of(self, layers: Iterable[str]) -> Loss:
        """Return what it costs that so many layers compute in int8."""
        on = set(layers)
        # What belongs to no layer is on only where every layer is.
        every = {name for pair in self.pairs for name in pair.layers} <= on and bool(on)
        switches = np.array([bool(on & set(pair.layers)) or every for pair in self.pairs])
        tallies: dict[str, OutputTally] = {}
        for feeds, wanted in zip(self.bench.few, self._wanted, strict=True):
            found = outputs_of(self._runner, {**feeds, SWITCHES: switches})
            for name, left in wanted.items():
                right = found[name]
                if left is not None and right is not None and left.dtype.kind == "f":
                    tallies.setdefault(name, OutputTally(name, batch_first=False)).add(left, right)
        self.compared = self.compared or bool(tallies)
        told = [tally.result() for tally in tallies.values()]
        losses = [Loss(1 - (1 if row.cosine is None else row.cosine), row.snr_db) for row in told]
        return max(losses, key=lambda row: row.cosine, default=Loss(0.0, None))
