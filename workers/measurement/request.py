"""What a benchmark is asked for: the engine, its original, and what both are fed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from enginefarm.errors import JobFailed
from enginefarm.spec import (
    BenchmarkOptions,
    EvaluationMetric,
    FixedInput,
    Profile,
    SyntheticInput,
)
from enginefarm.state import Blame
from enginefarm.views import TensorView
from workers.backends.base import Array, ModelSource
from workers.measurement import inputs

SYNTHETIC_BATCHES = 4
FIXED: TypeAdapter[dict[str, FixedInput]] = TypeAdapter(dict[str, FixedInput])
SYNTHETIC: TypeAdapter[dict[str, SyntheticInput]] = TypeAdapter(dict[str, SyntheticInput])
METRIC: TypeAdapter[EvaluationMetric | None] = TypeAdapter(EvaluationMetric | None)


@dataclass(frozen=True)
class Request:
    """What to measure, with what."""

    source: ModelSource
    engine: Path
    dataset: Path | None
    dataset_digest: str | None
    synthetic: Mapping[str, SyntheticInput]
    seed: int
    options: BenchmarkOptions
    fixed: Mapping[str, FixedInput] = field(default_factory=dict)
    keep_outputs: Sequence[str] = ()
    metric: EvaluationMetric | None = None
    twin: Path | None = None
    """The engine that this one is measured against, side by side."""
    cache: Path | None = None
    """Where a runtime cache is written, if the runtime leaves one."""

    @classmethod
    def of(
        cls,
        recipe: Mapping[str, Any],
        source: ModelSource,
        engine: Path,
        dataset: Path | None,
        twin: Path | None = None,
        cache: Path | None = None,
    ) -> Request:
        """Read a benchmark recipe."""
        return cls(
            source=source,
            engine=engine,
            dataset=dataset,
            dataset_digest=recipe.get("evaluation"),
            synthetic=SYNTHETIC.validate_python(recipe.get("synthetic") or {}),
            seed=int(recipe.get("seed") or 0),
            options=BenchmarkOptions.model_validate(recipe.get("options") or {}),
            fixed=FIXED.validate_python(recipe.get("fixed") or {}),
            keep_outputs=recipe.get("keep_outputs") or [],
            metric=METRIC.validate_python(recipe.get("evaluation_metric")),
            twin=twin,
            cache=cache,
        )

    @property
    def data(self) -> str:
        """What the engine is fed with, in the words of the report."""
        if self.dataset is None:
            return f"synthetic, seed {self.seed}"
        return f"dataset {self.dataset_digest}"

    def wanted(
        self, views: list[TensorView], values: list[Array | None]
    ) -> Iterator[tuple[TensorView, Array | None]]:
        """Yield the original's outputs, but for those that the build asked to leave out."""
        for view, value in zip(views, values, strict=True):
            if not self.keep_outputs or view.name in self.keep_outputs:
                yield view, value

    def batches(
        self, views: list[TensorView], profile: Profile | None
    ) -> Iterator[tuple[inputs.Feeds, int]]:
        """Yield the batches to compare on: the dataset whole, or a few synthetic ones."""
        if self.dataset is not None:
            yield from self._dataset_batches(views, profile)
            return
        rng = np.random.default_rng(self.seed)
        for _ in range(SYNTHETIC_BATCHES):
            feeds = inputs.synthetic(views, profile, self.synthetic, rng)
            yield feeds, inputs.shared_batch(feeds) or 1

    def _dataset_batches(
        self, views: list[TensorView], profile: Profile | None
    ) -> Iterator[tuple[inputs.Feeds, int]]:
        if self.dataset is None:
            return
        sizes = inputs.open_dataset(self.dataset, [view.name for view in views])
        there = set.intersection(*(set(size.arrays) for size in sizes))
        missing = [view.name for view in views if view.name not in there]
        if missing:
            raise JobFailed(
                f"The evaluation dataset lacks {', '.join(missing)}.",
                blame=Blame.PERSON,
                code="dataset_missing_input",
                fix="Give an array for every input of the model.",
            )
        every = (inputs.batches(size, views, profile) for size in sizes)
        for feeds, count in chain.from_iterable(every):
            fault = inputs.outside(feeds, profile)
            if fault is not None:
                raise JobFailed(
                    "The evaluation dataset does not fit the profile.",
                    blame=Blame.PERSON,
                    code="dataset_outside_profile",
                    why=f"{fault}.",
                    fix="Widen the profile, or leave these samples out.",
                )
            yield feeds, count
