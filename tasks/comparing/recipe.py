"""The recipes of a comparison's two jobs. Pure.

The measurement is of two engines, whatever artifacts name them; what is signed is of two artifacts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginefarm.compared import Compared
from enginefarm.plugins import needed
from enginefarm.spec import BenchmarkOptions, BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target

RECIPE_SCHEMA = 1
COMPARISON_RULES = 2
"""Raised whenever two engines would be measured, or judged, otherwise than before."""
_OF_SINGLE_RUNS = (
    "min_iterations",
    "stable_within",
    "cuda_graph",
    "batches",
    "streams",
    "not_finite",
)
"""Options that say nothing of windows which take turns."""


def compared_recipe(
    stage: Stage,
    spec: BuildSpec,
    version: str,
    engines: Mapping[str, Mapping[str, Any]],
    benchmark_key: str | None,
) -> dict[str, Any]:
    """Return the recipe of a stage of a comparison; ``engines`` are its first and its second."""
    compare, target = spec.compare, spec.targets[0]
    if compare is None:
        message = "not a comparison"
        raise ValueError(message)
    head = {
        "schema": RECIPE_SCHEMA,
        "stage": str(stage),
        "target": str(target),
        "comparison_rules": COMPARISON_RULES,
    }
    if stage is Stage.PUBLISH:
        named = {"first": compare.first, "second": compare.second}
        return head | {"artifacts": named, "benchmark_key": benchmark_key}
    return head | _plugins(spec, target) | _measured(spec, compare, version, engines)


def _plugins(spec: BuildSpec, target: Target) -> dict[str, Any]:
    found = needed(Stage.BENCHMARK, target, spec.options.plugins)
    return {"plugins": found} if found else {}


def _measured(
    spec: BuildSpec,
    compare: Compared,
    version: str,
    engines: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    again = {} if compare.again is None else {"again": compare.again}
    place = {"measure_on": list(spec.measure_on)} if spec.measure_on else {}
    return (
        again
        | place
        | {
            "backend_version": version,
            "compare": {side: dict(engine) for side, engine in engines.items()},
            "profiles": [
                {name: shape.model_dump() for name, shape in profile.items()}
                for profile in spec.profiles
            ],
            "evaluation": spec.evaluation,
            "synthetic": {
                n: row.model_dump(exclude_none=True) for n, row in spec.synthetic.items()
            },
            "seed": spec.seed,
            "options": windows_of(spec.options.benchmark),
        }
    )


def windows_of(options: BenchmarkOptions) -> dict[str, Any]:
    """Return the options that a comparison heeds."""
    return options.model_dump(exclude=set(_OF_SINGLE_RUNS))


def is_comparison(recipe: Mapping[str, Any] | None) -> bool:
    """Tell whether a job is one of a comparison, and not of a build that makes something."""
    return "comparison_rules" in (recipe or {})
