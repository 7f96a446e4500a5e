"""The statement that is signed about an artifact: in-toto v1 with SLSA provenance v1. Pure.

Everything in it comes from the control plane's own rows; what a node reported stands under
``enginefarm_worker`` and is marked as reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from enginefarm.attestation import PREDICATE_TYPE, STATEMENT_TYPE
from enginefarm.digest import hex_of
from enginefarm.manifest import Manifest
from enginefarm.plugins import Named
from enginefarm.precision import PrecisionTool
from enginefarm.repair_report import PassReport

BUILD_TYPE = "https://enginefarm.invalid/buildtypes/engine/v1"


@dataclass(frozen=True)
class Facts:
    """What the control plane knows about how an artifact came to be."""

    builder_id: str
    farm_version: str
    build_id: str
    attempt: int
    target: str
    backend: str
    backend_version: str
    model: dict[str, Any]
    repair_recipe: dict[str, Any] | None
    repaired_files: Sequence[dict[str, Any]]
    applied: Sequence[PassReport]
    compile_recipe: dict[str, Any]
    benchmark_recipe: dict[str, Any] | None
    gates: Sequence[str]
    started_at: datetime | None
    finished_at: datetime | None
    worker: dict[str, Any] | None
    evaluation: str | None
    precision_recipe: dict[str, Any] | None = None
    precision_files: Sequence[dict[str, Any]] = ()
    measure_on: Sequence[str] = ()
    plugins: Named = field(default_factory=dict)
    timing_cache: str | None = None
    """The snapshot of timings, which are also code, that the compiler was given and took."""


def statement_for(manifest: Manifest, facts: Facts) -> dict[str, Any]:
    """Return the statement whose subjects are the manifest, its config and every file."""
    files = [("manifest.json", manifest.digest), ("config.json", manifest.config.digest)]
    files += [(layer.name, layer.digest) for layer in manifest.layers]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": n, "digest": {"sha256": hex_of(d)}} for n, d in files],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": _definition(facts),
            "runDetails": {
                "builder": {
                    "id": facts.builder_id,
                    "version": {
                        "enginefarm": facts.farm_version,
                        facts.backend: facts.backend_version,
                    },
                },
                "metadata": _metadata(facts),
                "enginefarm_worker": {"reported": facts.worker} | _applied(facts),
            }
            | _byproducts(facts),
        },
    }


def _written(facts: Facts) -> list[dict[str, Any]]:
    """Return the files that stages have written, of which the last were compiled."""
    written = (("repaired", facts.repaired_files), ("precision", facts.precision_files))
    return [
        {"name": f"{stage}/{file['name']}", "digest": {"sha256": hex_of(file["digest"])}}
        for stage, files in written
        for file in files
    ]


def _byproducts(facts: Facts) -> dict[str, Any]:
    rows = _written(facts)
    return {"byproducts": rows} if rows else {}


def _applied(facts: Facts) -> dict[str, Any]:
    """Return the repairs that the node says have changed the model, if any has."""
    rows = [
        {"name": row.name, "version": row.version, "exactness": str(row.exactness)}
        for row in facts.applied
    ]
    return {"repairs": rows} if rows else {}


def _metadata(facts: Facts) -> dict[str, str]:
    """Return which attempt compiled the engine, and when; what is not known is left out."""
    moments = {"startedOn": facts.started_at, "finishedOn": facts.finished_at}
    return {"invocationId": f"{facts.build_id}#{facts.attempt}"} | {
        name: _rfc3339(moment) for name, moment in moments.items() if moment is not None
    }


def _definition(facts: Facts) -> dict[str, Any]:
    external: dict[str, Any] = {
        "model": facts.model["digest"],
        "target": facts.target,
        "profiles": facts.compile_recipe["profiles"],
        "options": facts.compile_recipe["options"],
        "gates": list(facts.gates),
    }
    dependencies = [
        {"name": file["name"], "digest": {"sha256": hex_of(file["digest"])}}
        for file in facts.model["files"]
    ]
    dependencies.append({"uri": f"pkg:generic/{facts.backend}@{facts.backend_version}"})
    # What the compiler read: made on the way, and an input of the step that made the engine.
    dependencies += _written(facts)
    if facts.repair_recipe is not None:
        external["repair"] = facts.repair_recipe["asked"]
    if facts.precision_recipe is not None:
        external["precision"] = facts.precision_recipe["precision"]
        dependencies += _calibration(facts.precision_recipe)
    if facts.benchmark_recipe is not None:
        external["measurement"] = {
            name: facts.benchmark_recipe[name]
            for name in ("evaluation", "evaluation_metric", "synthetic", "seed", "options")
            if name in facts.benchmark_recipe
        } | ({"measure_on": list(facts.measure_on)} if facts.measure_on else {})
    if facts.plugins:
        external["plugins"] = {name: list(row) for name, row in facts.plugins.items()}
    if facts.evaluation is not None:
        dependencies.append(
            {"name": "evaluation.npz", "digest": {"sha256": hex_of(facts.evaluation)}}
        )
    dependencies += _plugins(facts) + _timings(facts)
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": external,
        "internalParameters": {"attempt": facts.attempt}
        | ({} if facts.repair_recipe is None else {"passes": facts.repair_recipe["passes"]}),
        "resolvedDependencies": dependencies,
    }


def _plugins(facts: Facts) -> list[dict[str, Any]]:
    """Return the libraries whose code had a part in the engine, or in what is said of it."""
    return [
        {"name": f"plugins/{backend}/{hex_of(digest)[:12]}", "digest": {"sha256": hex_of(digest)}}
        for backend, digests in facts.plugins.items()
        for digest in digests
    ]


def _timings(facts: Facts) -> list[dict[str, Any]]:
    if facts.timing_cache is None:
        return []
    return [{"name": "timing.cache", "digest": {"sha256": hex_of(facts.timing_cache)}}]


def _calibration(recipe: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool that changed the precision, and the dataset that it took ranges from."""
    asked = recipe["precision"]
    rows: list[dict[str, Any]] = [{"uri": f"pkg:generic/{asked['tool']}@{recipe['tool_version']}"}]
    if asked["tool"] == PrecisionTool.ENGINEFARM:
        rows = []  # the farm itself, whose version stands with the builder
    if asked["calibration"] is not None:
        digest = {"sha256": hex_of(asked["calibration"])}
        rows.append({"name": "calibration.npz", "digest": digest})
    return rows


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
