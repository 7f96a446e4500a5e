"""What a submit would do to each stage, and why a key is not in the cache. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from enginefarm.finding import Finding
from enginefarm.plan_views import KeyDifference, MissView, PlannedJob, PlannedTarget
from enginefarm.precision import PrecisionKind
from enginefarm.precision_report import PrecisionReport
from enginefarm.spec import BuildSpec
from enginefarm.state import PRECISION_STAGES, Stage
from storage import jobs, overview
from storage.database import Session
from storage.models import Job, Model
from tasks.comparing.recipe import is_comparison
from tasks.measured import known_peaks, require_room
from tasks.memory import Known, room_of
from tasks.plan import LiveNode, TargetPlan, able, queue_now
from tasks.plugin_rules import having
from tasks.recipe import key_of, recipe_for
from tasks.results import Done, findings_of, made_of, repairs_of
from tasks.twin import spec_of

_ABSENT = "(absent)"
# What differs between two recipes only because an earlier stage differed is no news.
_SECONDARY = ("schema", "stage")


@dataclass
class Explainer:
    """Walks the stages of one target as a submit would."""

    session: Session
    tenant_id: str
    spec: BuildSpec
    model: Model
    plan: TargetPlan
    live: Sequence[LiveNode]
    explain: bool
    twin: PrecisionKind | None = None
    data: list[Finding] | None = None
    """What the stage found of the calibration data, once it is seen that it has run."""
    _done: dict[Stage, Done] | None = field(default_factory=dict)
    _its_twin: Explainer | None = None
    _findings: list[Finding] | None = None
    _skus: dict[str, str | None] = field(default_factory=dict)

    def target(self) -> PlannedTarget:
        """Return what would happen to each stage."""
        return PlannedTarget(
            target=self.plan.target,
            backend_version=self.plan.version,
            measured=self.plan.measured,
            reason=self.plan.reason,
            jobs=[self._step(*step) for step in self.plan.steps],
            findings=self._findings,
        )

    def _step(self, stage: Stage, twin: PrecisionKind | None, sku: str | None) -> PlannedJob:
        if twin is None:
            if self._is_twin_unknown or (stage is Stage.PUBLISH and self._unmeasured):
                self._done = None
            return self._stage(stage, sku)
        if self._its_twin is None:
            asked = spec_of(self.spec, twin)
            self._its_twin = replace(self, spec=asked, twin=twin, _done={}, _findings=None)
        return self._its_twin._stage(stage)  # noqa: SLF001 - of the same class

    @property
    def _is_twin_unknown(self) -> bool:
        """Whether what is measured now depends on an engine that is not built yet."""
        return self._its_twin is not None and self._its_twin._done is None  # noqa: SLF001

    def _built_twin(self) -> Done | None:
        done = None if self._its_twin is None else self._its_twin._done  # noqa: SLF001
        return (done or {}).get(Stage.COMPILE)

    @property
    def _unmeasured(self) -> bool:
        """Whether what is published depends on a SKU's measurement that is not made yet."""
        return None in self._skus.values()

    def _stage(self, stage: Stage, sku: str | None = None) -> PlannedJob:
        control = stage is Stage.PUBLISH
        target, version = self.plan.target, self.plan.version_of(stage, self.twin)
        queue = None if control else queue_now(self.live, stage, target, version, sku)
        nodes = [] if control or version is None else self._able(stage, version, sku)
        if version is None or self._done is None:
            # The key of a later stage exists only once the model and the engine do.
            outcome = "wait" if version is None else "build"
            told = {"stage": stage, "queue": queue, "outcome": outcome, "nodes": nodes}
            return PlannedJob(key=None, twin=self.twin, sku=sku, **told)
        files = {"digest": self.model.digest, "files": self.model.files}
        made = made_of(self._done, self._built_twin())
        made = replace(made, sku=sku, sku_keys=self._skus or None)
        recipe = recipe_for(stage, self.spec, target, version, files, made)
        key = key_of(recipe)
        known = jobs.succeeded_with_key(self.session, self.tenant_id, key)
        leader = known or jobs.in_flight_with_key(self.session, self.tenant_id, key, but="")
        if stage is Stage.CHECK:
            self._look_at_check(key)
        if known is not None and stage in PRECISION_STAGES and self.spec.precision.calibration:
            self.data = _of_data(known.result or {})
        self._go_on(stage, sku, key, known)
        memory = None if control or leader is not None else self._memory(stage)
        if memory is not None and nodes:
            nodes = self._with_memory(stage, memory)
        return PlannedJob(
            stage=stage,
            twin=self.twin,
            sku=sku,
            key=key,
            queue=queue,
            outcome=_outcome(known, leader, waits=not control and not nodes),
            memory_bytes=None if memory is None else memory.peak_bytes,
            source=leader.id if leader is not None else None,
            nodes=nodes,
            repairs=repairs_of(known.result) if known is not None else [],
            miss=self._miss(stage, recipe) if self.explain and leader is None else None,
        )

    def _go_on(self, stage: Stage, sku: str | None, key: str, known: Job | None) -> None:
        """Remember what the next stages rest on, or that it is not there yet."""
        if sku is not None:
            self._skus[sku] = None if known is None else key
        elif known is not None and self._done is not None:
            self._done[stage] = Done(key, known.result or {})
        elif stage is not Stage.CHECK:
            self._done = None

    def _able(self, stage: Stage, version: str, sku: str | None) -> list[str]:
        tool = self.spec.precision.maker
        there = having(self.live, stage, self.plan.target, self.spec.options.plugins)
        return able(there, stage, self.plan.target, version, tool, sku)

    def _look_at_check(self, key: str) -> None:
        found = overview.newest_check(self.session, self.tenant_id, key)
        self._findings = None if found is None else findings_of(found.result, found.failure)

    def _memory(self, stage: Stage) -> Known | None:
        target = self.plan.target
        asked = [(stage, target, self.plan.version or "")]
        known = known_peaks(self.session, self.tenant_id, self.spec, asked)
        return known.get((stage, str(target)))

    def _with_memory(self, stage: Stage, known: Known) -> list[str]:
        """Return the nodes that have the memory; refuse as a submit would if there is none."""
        target, version = self.plan.target, self.plan.version or ""
        if self.spec.wait_for_node == 0 and self.twin is None:
            there = having(self.live, stage, target, self.spec.options.plugins)
            require_room(known, stage, target, version, there)
        roomy = [row for row in self.live if room_of(row.description) >= known.peak_bytes]
        return able(having(roomy, stage, target, self.spec.options.plugins), stage, target, version)

    def _miss(self, stage: Stage, recipe: dict[str, Any]) -> MissView:
        target = str(self.plan.target)
        near = jobs.nearest_recipe(self.session, self.tenant_id, stage, target, self.spec.model)
        near = [row for row in near if not is_comparison(row.recipe)]
        best = min(near, key=lambda row: len(differences(recipe, row.recipe or {})), default=None)
        if best is None:
            return MissView(nearest_key=None, nearest_job=None, differences=[])
        return MissView(
            nearest_key=best.key,
            nearest_job=best.id,
            differences=differences(recipe, best.recipe or {}),
        )


def _of_data(result: dict[str, Any]) -> list[Finding]:
    """Return what the stage that calibrates found of its data."""
    return PrecisionReport.model_validate(result["facts"]["precision"]).findings


def _outcome(known: Job | None, leader: Job | None, *, waits: bool) -> str:
    if known is not None:
        return "cached"
    if leader is not None:
        return "joined"
    return "wait" if waits else "build"


def differences(this: Any, that: Any, path: str = "") -> list[KeyDifference]:  # noqa: ANN401 - JSON
    """Return the fields in which two recipes differ, by their paths."""
    if isinstance(this, dict) and isinstance(that, dict):
        found = []
        for name in sorted({*this, *that}):
            if path == "" and name in _SECONDARY:
                continue
            inner = f"{path}.{name}" if path else name
            found += differences(this.get(name, _ABSENT), that.get(name, _ABSENT), inner)
        return found
    if isinstance(this, list) and isinstance(that, list) and len(this) == len(that):
        pairs = enumerate(zip(this, that, strict=True))
        return [row for i, (a, b) in pairs for row in differences(a, b, f"{path}[{i}]")]
    return [] if this == that else [KeyDifference(field=path, this=this, nearest=that)]
