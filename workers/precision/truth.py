"""How good a model file is: against the model as it came, on held-out data, in ONNX Runtime.

Of an engine this says nothing; it is reported under a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import onnx

from enginefarm.accuracy_report import AccuracyReport
from workers.measurement.accuracy import OutputTally
from workers.measurement.inputs import Feeds, shared_batch
from workers.precision.running import opened, outputs_of

REFERENCE = "the model as it came, in ONNX Runtime on the CPU, graph as written"


def model_accuracy(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    samples: Iterable[Feeds],
    data: str,
    *,
    synthetic: bool,
    folder: Path,
    alive: Callable[[str, str], None],
) -> AccuracyReport | None:
    """Return how far two versions of a model are apart; None where no output is of numbers."""
    one, other = opened(before, folder / "before"), opened(after, folder / "after")
    tallies: dict[str, OutputTally] = {}
    skipped: set[str] = set()
    count = 0
    for feeds in samples:
        batch = shared_batch(feeds)
        count += batch or 1
        wanted, found = outputs_of(one, feeds), outputs_of(other, feeds)
        for name, left in wanted.items():
            right = found[name]
            if left is None or right is None or left.dtype.kind not in "fiub":
                skipped.add(name)
                continue
            first = batch is not None and left.ndim > 0 and left.shape[0] == batch
            tallies.setdefault(name, OutputTally(name, batch_first=first)).add(left, right)
        alive("comparing with the model", f"{count} samples")
    if not tallies:
        return None
    return AccuracyReport(
        reference=REFERENCE,
        data=data,
        synthetic=synthetic,
        samples=count,
        outputs=[tally.result() for tally in tallies.values()],
        not_compared=sorted(skipped),
        notes=[note for tally in tallies.values() for note in tally.notes()],
    )
