"""Put an artifact together from finished rows: report, config, manifest, facts to be signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginefarm import __version__
from enginefarm.digest import canonical_json, digest_of
from enginefarm.finding import Finding
from enginefarm.manifest import (
    CONFIG_TYPE,
    LABELS,
    PAGE_TYPE,
    PRECISION,
    REPORT_TYPE,
    TITLE,
    VERDICT,
    Descriptor,
    Manifest,
)
from enginefarm.precision_report import PrecisionReport
from enginefarm.repair_report import RepairReport
from enginefarm.report import (
    MAX_FINDINGS,
    AccuracyReport,
    BuildRecipe,
    BuildReport,
    CompileReport,
    GateVerdict,
    LatencyReport,
    Machine,
)
from enginefarm.report_page import render
from enginefarm.spec import BuildSpec, RepairMode
from enginefarm.state import PRECISION_STAGES, JobState, Stage
from enginefarm.target import Target
from storage.models import Build, Job, Model
from tasks import portability
from tasks.artifact_files import (
    cache_files,
    cache_report,
    engine_file,
    layer_files,
    require_readable,
)
from tasks.beside import judged
from tasks.engine_config import config_of
from tasks.gates import Named, applying, describe
from tasks.plugin_rules import plugins_loaded
from tasks.recipe import lets_lost_out
from tasks.results import findings_of, model_of
from tasks.statement import Facts

REPORT_NAME, PAGE_NAME = "report.json", "report.html"


@dataclass(frozen=True)
class Composed:
    """An artifact before it is signed: its manifest, its new files, and whether it may go out."""

    manifest: Manifest
    made: list[tuple[Descriptor, bytes]]
    """The files that the farm itself has written, and their bytes."""
    report: BuildReport
    unmet: list[GateVerdict]
    lets_lost_out: bool = False
    """Whether it may go out although it gives NaN or infinity where the original does not."""

    @property
    def held_back(self) -> bool:
        """Whether a gate, the verdict on the precision, or NaN keeps it from going out."""
        verdict = self.report.precision_verdict
        lost = self.report.why_lost is not None and not self.lets_lost_out
        return bool(self.unmet) or lost or (verdict is not None and verdict.held_back)

    @property
    def files(self) -> list[Descriptor]:
        """Everything that the manifest names: its config and its layers."""
        return [self.manifest.config, *self.manifest.layers]

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)


def compose(
    build: Build,
    model: Model,
    stages: Mapping[Stage, Job],
    named: Named,
    twin: Mapping[Stage, Job] | None = None,
    skus: Sequence[Job] = (),
) -> Composed:
    """Return the artifact that a target's finished stages make.

    ``named`` has the reports of the artifacts that gates hold it against; ``twin`` the stages of
    the engine that it is measured against; ``skus`` the benchmark of each SKU, if any were named.

    Raises:
        JobFailed: nobody could read its manifest (code ``result_invalid``).
    """
    compiled = stages[Stage.COMPILE]
    report = _judged(build, stages, named, twin or {}, skus)
    engine = engine_file(compiled)
    config = config_of(build, model, stages, engine.name, report)
    made = [
        _file(CONFIG_TYPE, canonical_json(config)),
        _file(REPORT_TYPE, canonical_json(report.model_dump(mode="json")), REPORT_NAME),
        _file(PAGE_TYPE, render(report), PAGE_NAME),
    ]
    caches = cache_files([row for row in (*skus, stages.get(Stage.BENCHMARK)) if row is not None])
    manifest = Manifest.of(
        made[0][0],
        [engine, *layer_files(compiled), *caches, *(row for row, _ in made[1:])],
        _annotations(report),
    )
    require_readable(manifest)
    unmet = [verdict for verdict in report.gates if not verdict.met]
    spec = BuildSpec.model_validate(build.spec)
    return Composed(manifest, made, report, unmet, lets_lost_out(spec))


def _judged(
    build: Build,
    stages: Mapping[Stage, Job],
    named: Named,
    twin: Mapping[Stage, Job],
    skus: Sequence[Job],
) -> BuildReport:
    def judge(job: Job | None, why: str | None, named: Named) -> BuildReport:
        its = stages if job is None else {**stages, Stage.BENCHMARK: job}
        report = _report(build, its)
        report = report if why is None else report.model_copy(update={"reason": why})
        return judged(build, its, twin, report, named)

    if not skus:
        return judge(None, None, named)
    each = portability.on_each(skus, named, judge)
    gates = applying(BuildSpec.model_validate(build.spec).gates, next(iter(each.values())))
    return portability.together(each, gates, _machine(stages[Stage.COMPILE].result or {}))


def _file(media_type: str, data: bytes, name: str | None = None) -> tuple[Descriptor, bytes]:
    told = {} if name is None else {TITLE: name}
    digest, size = digest_of(data), len(data)
    return Descriptor(media_type=media_type, digest=digest, size=size, annotations=told), data


def facts_of(
    build: Build,
    model: Model,
    stages: Mapping[Stage, Job],
    origin: Job,
    builder_id: str,
    timing_cache: str | None = None,
    skus: Sequence[Job] = (),
) -> Facts:
    """Return what is known of how an artifact was made; ``origin`` really compiled its engine."""
    compiled, measured = stages[Stage.COMPILE], _measured(stages, skus)
    spec = BuildSpec.model_validate(build.spec)
    target = Target.parse(compiled.target)
    applied, _ = _repair(stages.get(Stage.REPAIR))
    return Facts(
        builder_id=builder_id,
        farm_version=__version__,
        build_id=origin.build_id,
        attempt=origin.attempt,
        target=str(target),
        backend=target.backend,
        backend_version=compiled.backend_version or "",
        model={"digest": model.digest, "files": model.files},
        repair_recipe=stages[Stage.REPAIR].recipe if Stage.REPAIR in stages else None,
        repaired_files=(_written_by(stages, Stage.REPAIR) or {}).get("files", []),
        precision_recipe=_precision_recipe(stages),
        precision_files=(_written_by(stages, *PRECISION_STAGES) or {}).get("files", []),
        applied=applied.applied if applied is not None else [],
        compile_recipe=compiled.recipe or {},
        benchmark_recipe=measured.recipe if measured is not None else None,
        gates=[describe(gate) for gate in spec.gates if gate.target in {None, target}],
        started_at=origin.started_at,
        finished_at=origin.finished_at,
        timing_cache=timing_cache,
        plugins=plugins_loaded(row.recipe for row in (*stages.values(), *skus)),
        worker=(compiled.result or {}).get("machine"),
        evaluation=spec.evaluation if measured is not None else None,
        measure_on=[row.sku or "" for row in skus],
    )


def _measured(stages: Mapping[Stage, Job], skus: Sequence[Job]) -> Job | None:
    """Return a job that has measured the engine; how it did is the same on every SKU."""
    done = (row for row in skus if row.state is JobState.SUCCEEDED)
    return stages.get(Stage.BENCHMARK) or next(done, None)


def _report(build: Build, stages: Mapping[Stage, Job]) -> BuildReport:
    compiled, measured = stages[Stage.COMPILE], stages.get(Stage.BENCHMARK)
    target = Target.parse(compiled.target)
    spec = BuildSpec.model_validate(build.spec)
    built: dict[str, Any] = compiled.result or {}
    ran: dict[str, Any] = (measured.result or {}) if measured is not None else {}
    found: dict[str, Any] = ran.get("facts", {})
    accuracy = found.get("accuracy")
    repair, versions = _repair(stages.get(Stage.REPAIR))
    precision, its_versions = _precision(stages)
    written = _built_model(stages)
    return BuildReport(
        target=target,
        backend_version=compiled.backend_version or "",
        model=build.model_digest,
        model_name=build.model_name,
        build=build.id,
        recipe=_recipe(compiled),
        findings=_findings(stages.get(Stage.CHECK)),
        measured=measured is not None,
        reason=None if measured is not None else stages[Stage.PUBLISH].unmeasured,
        repair=repair,
        repair_reason=_not_repaired(spec) if repair is None else None,
        repaired_model=written["digest"] if written is not None else None,
        precision=precision,
        compile=CompileReport.model_validate(built["facts"]["compile"]),
        compile_machine=_machine(built),
        latency=[LatencyReport.model_validate(row) for row in found.get("latency", [])],
        accuracy=AccuracyReport.model_validate(accuracy) if accuracy is not None else None,
        accuracy_reason=found.get("accuracy_reason") if accuracy is None else None,
        measure_machine=_machine(ran),
        runtime_cache=cache_report(ran),
        versions=versions
        | its_versions
        | built["facts"].get("versions", {})
        | found.get("versions", {}),
    )


def _repair(job: Job | None) -> tuple[RepairReport | None, dict[str, str]]:
    """Return what the repairs came to, and the versions of what had a say in them."""
    if job is None:
        return None, {}
    facts = (job.result or {})["facts"]
    return RepairReport.model_validate(facts["repair"]), facts.get("versions", {})


def _recipe(compiled: Job) -> BuildRecipe:
    recipe = compiled.recipe or {}
    told = {"profiles": recipe["profiles"], "options": recipe.get("options") or {}}
    return BuildRecipe(key=compiled.key or "", plugins=plugins_loaded([recipe]), **told)


def _findings(checked: Job | None) -> list[Finding]:
    return [] if checked is None else findings_of(checked.result, None)[:MAX_FINDINGS]


def _not_repaired(spec: BuildSpec) -> str:
    if spec.options.repair.mode is RepairMode.NONE:
        return "the build asked for none"
    return "no live node took the stage repair when the build was planned"


def _precision(stages: Mapping[Stage, Job]) -> tuple[PrecisionReport | None, dict[str, str]]:
    """Return what the precision came to, and the versions of what had a say in it."""
    for stage in PRECISION_STAGES:
        if stage in stages:
            facts = (stages[stage].result or {})["facts"]
            report = PrecisionReport.model_validate(facts["precision"])
            return report, facts.get("versions", {})
    return None, {}


def _precision_recipe(stages: Mapping[Stage, Job]) -> dict[str, Any] | None:
    return next((stages[stage].recipe for stage in PRECISION_STAGES if stage in stages), None)


def _annotations(report: BuildReport) -> dict[str, str]:
    """Return what a manifest says of its precision, if it has one, and warns of."""
    precision, verdict = report.precision, report.precision_verdict
    labels = [*(precision.labels if precision else []), *report.measurement_labels]
    told = {PRECISION: str(precision.recipe.kind)} if precision else {}
    said = {VERDICT: str(verdict.verdict)} if verdict is not None and verdict.verdict else {}
    return told | said | ({LABELS: ",".join(labels)} if labels else {})


def _written_by(stages: Mapping[Stage, Job], *those: Stage) -> dict[str, Any] | None:
    """Return the newest model that any of these stages has written."""
    found = [model_of(stages[stage].result) for stage in those if stage in stages]
    return next((row for row in reversed(found) if row is not None), None)


def _built_model(stages: Mapping[Stage, Job]) -> dict[str, Any] | None:
    """Return the model that the engine was compiled from, if it is not the original."""
    return _written_by(stages, Stage.REPAIR, *PRECISION_STAGES)


def _machine(result: dict[str, Any]) -> Machine | None:
    machine = result.get("machine")
    return Machine.model_validate(machine) if machine is not None else None
