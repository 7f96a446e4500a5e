"""What an engine was built with, name by name. Pure."""

from __future__ import annotations

from pydantic import JsonValue

from enginefarm.precision_report import PrecisionReport
from enginefarm.profile_text import as_flags
from enginefarm.report import BuildReport


def built_with(report: BuildReport) -> dict[str, JsonValue]:
    """Return what decides an engine, by names that tell two reports apart."""
    found: dict[str, JsonValue] = {
        "model": report.model,
        "repaired_model": report.repaired_model,
        "target": str(report.target),
        "backend_version": report.backend_version,
    }
    if report.recipe is not None:
        found |= {f"options.{name}": value for name, value in report.recipe.options.items()}
        found |= {
            f"plugins.{name}": list[JsonValue](each) for name, each in report.recipe.plugins.items()
        }
        found |= {f"profile {n}": as_flags(row) for n, row in enumerate(report.recipe.profiles)}
    found |= _precision(report.precision)
    for row in report.repair.applied if report.repair else []:
        found[f"repair {row.name}"] = row.version
    for name, version in sorted(report.versions.items()):
        found[f"versions.{name}"] = version
    return found


def _precision(told: PrecisionReport | None) -> dict[str, JsonValue]:
    if told is None:
        return {}
    recipe = told.recipe.model_dump(mode="json", exclude_defaults=True)
    kept = {"changed_nodes": told.changed, "kept_nodes": told.kept_count}
    return {f"precision.{name}": value for name, value in (recipe | kept).items()}
