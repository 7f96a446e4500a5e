"""Put an artifact together from finished rows: report, config, manifest, facts to be signed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginefarm import __version__
from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import JobFailed
from enginefarm.manifest import CONFIG_TYPE, REPORT_TYPE, TITLE, Descriptor, EngineConfig, Manifest
from enginefarm.report import (
    AccuracyReport,
    BuildReport,
    CompileReport,
    GateVerdict,
    LatencyReport,
    Machine,
)
from enginefarm.spec import BuildSpec
from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from storage.models import Build, Job, Model
from tasks.gates import describe, judge
from tasks.results import engine_of
from tasks.statement import Facts

REPORT_NAME = "report.json"


@dataclass(frozen=True)
class Composed:
    """An artifact before it is signed: its manifest, its new files, and whether it may go out."""

    manifest: Manifest
    config: bytes
    report: BuildReport
    report_bytes: bytes
    unmet: list[GateVerdict]

    @property
    def files(self) -> list[Descriptor]:
        """Everything that the manifest names: its config and its layers."""
        return [self.manifest.config, *self.manifest.layers]

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)


def compose(build: Build, model: Model, stages: Mapping[Stage, Job]) -> Composed:
    """Return the artifact that a target's finished stages make."""
    compiled = stages[Stage.COMPILE]
    report = _report(build, compiled, stages.get(Stage.BENCHMARK), stages[Stage.PUBLISH])
    report_bytes = canonical_json(report.model_dump(mode="json"))
    engine = _engine(compiled)
    config = canonical_json(
        _config(build, model, compiled, engine.name, measured=report.measured).model_dump(
            mode="json"
        )
    )
    manifest = Manifest.of(
        Descriptor(media_type=CONFIG_TYPE, digest=digest_of(config), size=len(config)),
        [
            engine,
            Descriptor(
                media_type=REPORT_TYPE,
                digest=digest_of(report_bytes),
                size=len(report_bytes),
                annotations={TITLE: REPORT_NAME},
            ),
        ],
    )
    unmet = [verdict for verdict in report.gates if not verdict.met]
    return Composed(manifest, config, report, report_bytes, unmet)


def facts_of(
    build: Build, model: Model, stages: Mapping[Stage, Job], origin: Job, builder_id: str
) -> Facts:
    """Return what the control plane knows of how an artifact was made.

    ``origin`` is the job that really compiled the engine: of an earlier build if the cache had it.
    """
    compiled, measured = stages[Stage.COMPILE], stages.get(Stage.BENCHMARK)
    spec = BuildSpec.model_validate(build.spec)
    target = Target.parse(compiled.target)
    return Facts(
        builder_id=builder_id,
        farm_version=__version__,
        build_id=origin.build_id,
        attempt=origin.attempt,
        target=str(target),
        backend=target.backend,
        backend_version=compiled.backend_version or "",
        model={"digest": model.digest, "files": model.files},
        compile_recipe=compiled.recipe or {},
        benchmark_recipe=measured.recipe if measured is not None else None,
        gates=[describe(gate) for gate in spec.gates if gate.target in {None, target}],
        started_at=origin.started_at,
        finished_at=origin.finished_at,
        worker=(compiled.result or {}).get("machine"),
        evaluation=spec.evaluation if measured is not None else None,
    )


def _report(build: Build, compiled: Job, measured: Job | None, publish: Job) -> BuildReport:
    target = Target.parse(compiled.target)
    built: dict[str, Any] = compiled.result or {}
    ran: dict[str, Any] = (measured.result or {}) if measured is not None else {}
    found: dict[str, Any] = ran.get("facts", {})
    accuracy = found.get("accuracy")
    report = BuildReport(
        target=target,
        backend_version=compiled.backend_version or "",
        model=build.model_digest,
        measured=measured is not None,
        reason=None if measured is not None else publish.unmeasured,
        compile=CompileReport.model_validate(built["facts"]["compile"]),
        compile_machine=_machine(built),
        latency=[LatencyReport.model_validate(row) for row in found.get("latency", [])],
        accuracy=AccuracyReport.model_validate(accuracy) if accuracy is not None else None,
        accuracy_reason=found.get("accuracy_reason") if accuracy is None else None,
        measure_machine=_machine(ran),
        versions=built["facts"].get("versions", {}) | found.get("versions", {}),
    )
    verdicts = judge(BuildSpec.model_validate(build.spec).gates, report)
    return report.model_copy(update={"gates": verdicts})


def _machine(result: dict[str, Any]) -> Machine | None:
    machine = result.get("machine")
    return Machine.model_validate(machine) if machine is not None else None


def _engine(compiled: Job) -> Descriptor:
    row = engine_of(compiled.result)
    if row is None:
        raise JobFailed("There is no engine to publish.", blame=Blame.FARM, code="engine_missing")
    return Descriptor(
        media_type=row["media_type"],
        digest=row["digest"],
        size=row["size"],
        annotations={TITLE: row["name"]},
    )


def _config(
    build: Build, model: Model, compiled: Job, engine_file: str, *, measured: bool
) -> EngineConfig:
    target = Target.parse(compiled.target)
    return EngineConfig(
        target=str(target),
        backend=target.backend,
        backend_version=compiled.backend_version or "",
        arch=target.arch,
        model=build.model_digest,
        model_name=build.model_name,
        inputs=model.interface["inputs"],
        outputs=model.interface["outputs"],
        profiles=(compiled.recipe or {})["profiles"],
        measured=measured,
        engine_file=engine_file,
        build=build.id,
        recipe_key=compiled.key or "",
    )
