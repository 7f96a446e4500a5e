"""The config of an artifact: what whoever loads the engine must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginefarm.manifest import EngineConfig
from enginefarm.portable import portability_of
from enginefarm.report import BuildReport
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from storage.models import Build, Job, Model
from tasks.results import interface_of
from tasks.routing import plugins_of

_ABSENT_IF_EMPTY = frozenset({"portability", "repaired_model", "fixed_inputs", "plugins"})


def config_of(
    build: Build, model: Model, stages: Mapping[Stage, Job], engine_file: str, report: BuildReport
) -> dict[str, Any]:
    """Return the config of an engine that a target's finished stages have made."""
    return _plain(_config(build, model, stages, engine_file, report))


def _to_be_loaded(recipe: dict[str, Any], target: Target) -> list[str]:
    """Return the plugins that whoever runs the engine must have: none, where it carries them."""
    carried = recipe["options"].get("serialize_plugins")
    return [] if carried else list(plugins_of(recipe).get(target.backend, []))


def _plain(config: EngineConfig) -> dict[str, Any]:
    """Leave out what says nothing, so that clients of the version before read the config, too."""
    plain = config.model_dump(mode="json")
    return {name: value for name, value in plain.items() if value or name not in _ABSENT_IF_EMPTY}


def _config(
    build: Build, model: Model, stages: Mapping[Stage, Job], engine_file: str, report: BuildReport
) -> EngineConfig:
    compiled, repaired = stages[Stage.COMPILE], stages.get(Stage.REPAIR)
    target = Target.parse(compiled.target)
    options = BuildSpec.model_validate(build.spec).options
    portability = portability_of(target, options.compile)
    # Another precision leaves the interface as it is: its stage sees to that.
    interface = interface_of(repaired.result if repaired else None) or model.interface
    return EngineConfig(
        target=str(target),
        backend=target.backend,
        backend_version=compiled.backend_version or "",
        arch=target.arch,
        portability=None if target.portability is not None else portability,
        model=build.model_digest,
        repaired_model=report.repaired_model,
        fixed_inputs=options.repair.fix_inputs,
        plugins=_to_be_loaded(compiled.recipe or {}, target),
        model_name=build.model_name,
        inputs=interface["inputs"],
        outputs=interface["outputs"],
        profiles=(compiled.recipe or {})["profiles"],
        measured=report.measured,
        engine_file=engine_file,
        build=build.id,
        recipe_key=compiled.key or "",
    )
