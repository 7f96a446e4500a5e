"""The recipe of a stage: all that decides its output, and nothing else. Pure.

The key is the digest of its canonical JSON. Options are written by name, the backend with its full
version; what has no influence (labels, priority, limits, file names) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from enginefarm.digest import canonical_json, digest_of
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target

RECIPE_SCHEMA = 1
CHECK_RULES = 2
"""Raised whenever the rules of the check change: what an older check found is then asked anew."""
OPTIONS_OF_BACKEND: dict[str, frozenset[str]] = {
    "onnxruntime": frozenset({"graph_optimization"}),
    "tensorrt-rtx": frozenset({"optimization_level", "workspace_mib"}),
    "tensorrt": frozenset({"optimization_level", "workspace_mib"}),
    "tensorrt-llm": frozenset({"optimization_level", "workspace_mib"}),
}
"""Which compile options a backend listens to; one that it ignores is not in its key."""


@dataclass(frozen=True)
class Made:
    """What earlier stages of the same target have made, as far as they have run."""

    engine: dict[str, Any] | None = None
    compile_key: str | None = None
    benchmark_key: str | None = None


def key_of(recipe: dict[str, Any]) -> str:
    """Return the key of a recipe."""
    return digest_of(canonical_json(recipe))


def recipe_for(
    stage: Stage,
    spec: BuildSpec,
    target: Target,
    version: str,
    model: dict[str, Any],
    made: Made,
) -> dict[str, Any]:
    """Return the recipe of a stage of a build on a target.

    ``model`` is ``{"digest": …, "files": [{"name", "digest", "size"}, …]}``.
    """
    head: dict[str, Any] = {"schema": RECIPE_SCHEMA, "stage": str(stage), "target": str(target)}
    if stage is Stage.PUBLISH:
        return head | _published(spec, target, made)
    built: dict[str, Any] = {
        "backend_version": version,
        "model": model,
        "profiles": [
            {name: shape.model_dump() for name, shape in profile.items()}
            for profile in spec.profiles
        ],
    }
    if stage is Stage.BENCHMARK:
        return head | built | _measured(spec, made)
    if stage is Stage.CHECK:
        head["rules"] = CHECK_RULES
    given = spec.options.compile.model_dump(mode="json", exclude_none=True)
    heard = OPTIONS_OF_BACKEND[target.backend]
    return head | built | {"options": {name: given[name] for name in given if name in heard}}


def _measured(spec: BuildSpec, made: Made) -> dict[str, Any]:
    return {
        "engine": made.engine,
        "evaluation": spec.evaluation,
        "synthetic": {n: s.model_dump(exclude_none=True) for n, s in spec.synthetic.items()},
        "seed": spec.seed,
        "options": spec.options.benchmark.model_dump(),
    }


def _published(spec: BuildSpec, target: Target, made: Made) -> dict[str, Any]:
    return {
        "engine": made.engine,
        "compile_key": made.compile_key,
        "benchmark_key": made.benchmark_key,
        "gates": [
            gate.model_dump(mode="json")
            for gate in spec.gates
            if gate.target is None or gate.target == target
        ],
    }
