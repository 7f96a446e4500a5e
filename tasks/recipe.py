"""The recipe of a stage: all that decides its output, and nothing else. Pure.

The key is the digest of its canonical JSON. Options are written by name, the backend with its full
version; what has no influence (labels, priority, limits, file names) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enginefarm.compile_options import OPTIONS_OF_BACKEND, opened_by
from enginefarm.digest import canonical_json, digest_of
from enginefarm.gate import Tainted
from enginefarm.plugins import needed
from enginefarm.portable import in_options
from enginefarm.precision import OnSlower, Precision, PrecisionKind
from enginefarm.repairs import passes_for
from enginefarm.spec import BenchmarkOptions, BuildSpec, Gate, NotFinite, Profile
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import Target
from tasks.readings import LATENCIES

RECIPE_SCHEMA = 1
CHECK_RULES = 5
"""Raised whenever the rules of the check change: what an older check found is then asked anew."""
PRECISION_RULES = 2
"""Raised whenever a model would be cast, calibrated or judged otherwise than before."""
_AGAINST = frozenset({"against", "worse_by", "worse_by_percent"})
VERDICT_RULES = 3
"""Raised whenever a precision would get another verdict from the same measurements."""
_SINCE_RULES_3 = frozenset({"cuda_graph", "batches", "shapes", "streams"})
MEASUREMENT_RULES = 5
"""Raised whenever a benchmark measures more, or otherwise: it is made anew, the engine is not."""
BESIDE_RULES = 3
"""The same of what is measured beside a twin; a benchmark without one has no part in it."""


@dataclass(frozen=True)
class Made:
    """What earlier stages of the same target have made, as far as they have run."""

    model: dict[str, Any] | None = None
    """The newest model that a stage has written; None while the original is the newest."""
    inputs: tuple[str, ...] | None = None
    """The names of that model's inputs."""
    engine: dict[str, Any] | None = None
    compile_key: str | None = None
    benchmark_key: str | None = None
    repair_key: str | None = None
    precision_key: str | None = None
    twin: dict[str, Any] | None = None
    """The engine that this one is measured against."""
    twin_key: str | None = None
    sku: str | None = None
    """The one to measure on, if one is named."""
    sku_keys: dict[str, str | None] | None = None
    """The key of each SKU's measurement; None of one where the engine was not measured."""


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
    search: str | None = None,
) -> dict[str, Any]:
    """Return the recipe of a stage of a build on a target.

    ``model`` is the original, ``{"digest", "files": [{"name", "digest", "size"}]}``. A stage works
    on the newest model; what is measured is always compared with the original. ``search``: what is
    published is its candidate, and is kept back for it alone.
    """
    whole = {"schema": RECIPE_SCHEMA, "stage": str(stage), "target": str(target)}
    if stage is Stage.PUBLISH:
        held = {} if search is None else {"search": search}
        return whole | held | _published(spec, target, made)
    spec, target = in_options(spec, target)
    head: dict[str, Any] = whole | {"target": str(target)}
    built: dict[str, Any] = {"backend_version": version, "model": model}
    built |= _plugins(stage, spec, target)
    built["profiles"] = _plain(spec.profiles)
    if stage is Stage.REPAIR or stage in PRECISION_STAGES:
        built["profiles"] = _plain(spec.prepared_at or spec.profiles)
    if stage is Stage.REPAIR:
        return _repaired(spec, target) | built
    if stage is Stage.BENCHMARK:
        return head | built | _measured(spec, target, made)
    if made.model is not None:
        built["model"] = made.model
        built["profiles"] = [_of_inputs(row, made.inputs) for row in built["profiles"]]
    if stage in PRECISION_STAGES:
        return _precise(stage, spec, version, built)
    if stage is Stage.CHECK:
        head["rules"] = CHECK_RULES
    given = spec.options.compile.model_dump(mode="json", exclude_none=True)
    heard = OPTIONS_OF_BACKEND[target.backend]
    return head | built | {"options": {name: given[name] for name in given if name in heard}}


def _plugins(stage: Stage, spec: BuildSpec, target: Target) -> dict[str, Any]:
    """Name those that the stage needs; without any it has the key that it had before."""
    found = needed(stage, target, spec.options.plugins)
    return {"plugins": found} if found else {}


def _repaired(spec: BuildSpec, target: Target) -> dict[str, Any]:
    """Name the backend and not the architecture: what is rewritten is the same for all of them."""
    asked = spec.options.repair
    precise = spec.precision.kind is not PrecisionKind.AS_IS
    passes = passes_for(target.backend, asked, precise=precise)
    return {
        "schema": RECIPE_SCHEMA,
        "stage": str(Stage.REPAIR),
        "backend": target.backend,
        "passes": [row.model_dump() for row in passes],
        "asked": asked.model_dump(mode="json", exclude={"mode"}),
        "synthetic": _synthetic(spec),
    }


def _precise(stage: Stage, spec: BuildSpec, version: str, built: dict[str, Any]) -> dict[str, Any]:
    """Name the tool and no target: one file serves all of them."""
    return {
        "schema": RECIPE_SCHEMA,
        "stage": str(stage),
        "rules": PRECISION_RULES,
        "tool_version": version,
        "precision": spec.precision.recipe,
        "model": built["model"],
        "profiles": built["profiles"],
        **({"plugins": built["plugins"]} if "plugins" in built else {}),
        # What the result is judged on is part of what the stage says.
        "evaluation": spec.evaluation,
        "synthetic": _synthetic(spec),
        "seed": spec.seed,
    }


def _plain(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    return [{name: row.model_dump() for name, row in each.items()} for each in profiles]


def _of_inputs(profile: dict[str, Any], inputs: tuple[str, ...] | None) -> dict[str, Any]:
    return {name: row for name, row in profile.items() if inputs is None or name in inputs}


def _synthetic(spec: BuildSpec) -> dict[str, Any]:
    return {name: row.model_dump(exclude_none=True) for name, row in spec.synthetic.items()}


def _on_purpose(spec: BuildSpec) -> dict[str, Any]:
    """Return in what the engine differs from the original on purpose, if in anything."""
    asked = spec.options.repair
    fixed = {name: row.model_dump(mode="json") for name, row in asked.fix_inputs.items()}
    told = {"fixed": fixed, "keep_outputs": list(asked.keep_outputs)}
    return {name: value for name, value in told.items() if value}


def _measured(spec: BuildSpec, target: Target, made: Made) -> dict[str, Any]:
    asked, built = spec.evaluation_metric, opened_by(target.backend, spec.options.compile)
    judged: dict[str, Any] = (
        {} if asked is None else {"evaluation_metric": asked.model_dump(mode="json")}
    )
    if made.twin is not None:
        judged |= {"twin": made.twin, "beside_rules": BESIDE_RULES}
    if made.sku is not None:
        judged |= {"sku": made.sku}
    if built:
        judged |= {"built_with": built}
    return (
        _on_purpose(spec)
        | judged
        | {
            "rules": MEASUREMENT_RULES,
            "engine": made.engine,
            "evaluation": spec.evaluation,
            "synthetic": _synthetic(spec),
            "seed": spec.seed,
            "options": _as_asked(spec.options.benchmark),
        }
    )


def _as_asked(options: BenchmarkOptions) -> dict[str, Any]:
    """Leave out what says nothing, so that a measurement has the key that it had before."""
    said = options.model_dump(mode="json", exclude={"not_finite"})
    return {name: said[name] for name in said if said[name] or name not in _SINCE_RULES_3}


def _published(spec: BuildSpec, target: Target, made: Made) -> dict[str, Any]:
    before: dict[str, Any] = {
        "repair_key": made.repair_key,
        "precision_key": made.precision_key,
        "twin_key": made.twin_key,
        "sku_keys": made.sku_keys,
        "verdict": None if spec.precision.stage is None else _verdict(spec.precision),
        "not_finite": "publish" if lets_lost_out(spec) else None,
    }
    return {name: key for name, key in before.items() if key is not None} | {
        "engine": made.engine,
        "compile_key": made.compile_key,
        "benchmark_key": made.benchmark_key,
        "gates": [
            _gate(gate) for gate in spec.gates if gate.target is None or gate.target == target
        ],
    }


def lets_lost_out(spec: BuildSpec) -> bool:
    """Tell whether values that are not finite, and are in the original, keep no engine back."""
    return spec.options.benchmark.not_finite is NotFinite.PUBLISH


def _verdict(asked: Precision) -> dict[str, Any]:
    return {
        "rules": VERDICT_RULES,
        "min_cosine": asked.least_cosine,
        "on_slower": str(asked.on_slower or OnSlower.QUARANTINE),
    }


def _gate(gate: Gate) -> dict[str, Any]:
    """Leave out what says nothing, so that a gate has the key that it had before there was more."""
    said = gate.model_dump(mode="json")
    silent = set() if gate.against else set(_AGAINST)
    # A gate that lets a tainted latency through is the one that there was before any did not.
    as_before = gate.metric not in LATENCIES or gate.if_tainted is Tainted.ALLOW
    silent |= {"if_tainted"} if as_before else set()
    return {name: said[name] for name in said if name not in silent}
