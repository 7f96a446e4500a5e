"""The steps of a target, in order: its stages, those of a twin, one measurement a SKU. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from enginefarm.precision import PrecisionKind
from enginefarm.state import Stage
from tasks.twin import Twin


class Step(NamedTuple):
    """A stage of a target: of its twin, in that precision, or on one SKU."""

    stage: Stage
    twin: PrecisionKind | None = None
    sku: str | None = None


def steps_of(stages: Sequence[Stage], twin: Twin | None, skus: Sequence[str]) -> list[Step]:
    """Return every step: a twin is built before the benchmark, which is made on each SKU."""
    steps: list[Step] = []
    for stage in stages:
        if stage is Stage.BENCHMARK and twin is not None:
            wanted = [row for row in twin.stages if row in {*stages, Stage.CAST}]
            steps += [Step(row, twin.kind) for row in wanted]
        named = skus if stage is Stage.BENCHMARK else ()
        steps += [Step(stage, sku=sku) for sku in named] or [Step(stage)]
    return steps
