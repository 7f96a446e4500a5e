"""What a comparison is asked for: the body of ``POST /v1/comparisons``.

Two artifacts of one target, which take and give the same, are measured in turns in one process on
one device. It is a build that builds nothing: one benchmark, and the signing of what it found.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from enginefarm.digest import Digest
from enginefarm.numbers import Whole
from enginefarm.sku import Sku
from enginefarm.spec import BenchmarkOptions, LabelKey, LabelValue, Limits
from enginefarm.strict import Strict

OF_SINGLE_ENGINES = ("batches", "streams", "cuda_graph")
"""Options of a benchmark that a comparison refuses."""
WHOLE_RUNS = "it measures whole runs at the build's profiles, no sweep and no graph"


class ComparisonSpec(Strict):
    """Which of two artifacts is faster? At the shapes and on the data that the first was built for.

    ``options``: how long is measured, and with how many threads.
    """

    first: Digest
    second: Digest
    options: BenchmarkOptions = BenchmarkOptions()
    on: Sku | None = Field(
        default=None, description="The SKU to run both on, as l4; absent: any of the architecture."
    )
    again: bool = Field(default=False, description="Measure, whatever was measured before.")
    priority: Annotated[Whole, Field(ge=0, le=9, description="0 is the most urgent.")] = 5
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = Field(
        default={}, description="As a build's."
    )
    wait_for_node: Annotated[Whole, Field(ge=0, le=30 * 86_400)] = Field(
        default=0, description="Seconds to wait for a node that can run both; 0: refuse at once."
    )
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _is_one_measurement(self) -> Self:
        for name in OF_SINGLE_ENGINES:
            if getattr(self.options, name):
                message = f"a comparison has no options.{name}: {WHOLE_RUNS}"
                raise ValueError(message)
        return self
