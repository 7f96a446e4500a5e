"""Take a build in: check it, then write build, jobs and rings in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import Conflict, InvalidRequest
from enginefarm.finding import Finding, Severity
from enginefarm.fixed import require_outputs, with_fixed
from enginefarm.plan_views import PlanView
from enginefarm.profile import check_profiles, measured_at
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, JobState, Stage
from enginefarm.tensor import StoredArray
from enginefarm.views import (
    TensorView,
)
from storage import builds, catalogue, events, jobs
from storage.database import Session, now
from storage.ids import new_id
from storage.models import Build, Job, Model
from tasks import quotas
from tasks.admission import check_fixed, check_spec
from tasks.calibration import Feed, findings
from tasks.comparing.begin import admit_compared
from tasks.comparing.plan import plan_for
from tasks.datasets import check_against, check_within
from tasks.explain import Explainer
from tasks.farm import Policy
from tasks.fault_points import reach
from tasks.fleet import live_nodes
from tasks.measured import refuse_short
from tasks.moves import roll_up
from tasks.named_artifacts import require_named
from tasks.plan import TargetPlan, plan_target
from tasks.plugin_rules import check_plugins
from tasks.precision_rules import check_precision
from tasks.release import Ground, release_from
from tasks.skus import on_skus, resolved


@dataclass(frozen=True)
class Requester:
    """Who asks for a build: the tenant, by which access key, under which idempotency key."""

    tenant_id: str
    api_key_id: str | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Of what was sent, where it was not the build itself."""


@dataclass(frozen=True)
class Accepted:
    """A build and its jobs; ``existed``: it was submitted before under the idempotency key."""

    build: Build
    jobs: Sequence[Job]
    existed: bool = False


def plan(session: Session, tenant_id: str, spec: BuildSpec, *, explain: bool = False) -> PlanView:
    """Say what a submit would do: keys, hits and routing. Nothing is written."""
    model = admit(session, tenant_id, spec)
    live = live_nodes(session)
    spec = resolved(spec, live)
    plans = [on_skus(spec, plan_target(spec, row, live), live) for row in spec.targets]
    refuse_short(session, tenant_id, spec, plans, live)
    walks = [Explainer(session, tenant_id, spec, model, row, live, explain) for row in plans]
    targets = [walk.target() for walk in walks]
    known = next((walk.data for walk in walks if walk.data is not None), None)
    calibration = known if known is not None else _of_calibration(session, tenant_id, spec, model)
    return PlanView(model=spec.model, targets=targets, calibration=calibration)


def _of_calibration(
    session: Session, tenant_id: str, spec: BuildSpec, model: Model
) -> list[Finding] | None:
    """Return what is known of the calibration data before a stage reads it."""
    if spec.precision.calibration is None:
        return None
    arrays, held_out = (
        None
        if digest is None
        else [
            StoredArray.model_validate(row)
            for row in catalogue.get_dataset(session, tenant_id, digest).arrays
        ]
        for digest in (spec.precision.calibration, spec.evaluation)
    )
    declared = [TensorView.model_validate(row) for row in model.interface["inputs"]]
    feed = Feed(with_fixed(declared, spec.options.repair.fix_inputs), spec.profiles)
    return findings(feed, arrays or [], held_out, spec.precision.samples)


def _refuse_data(known: Sequence[Finding] | None) -> None:
    """Refuse calibration data that its stage is sure to refuse, before anything is prepared."""
    for row in known or ():
        if row.severity is Severity.ERROR:
            why = ". ".join(each.rstrip(".") for each in (row.why, row.where) if each)
            raise InvalidRequest(
                row.message, code=row.code, why=f"{why}." if why else "", fix=row.fix
            )


def submit(
    session: Session,
    policy: Policy,
    requester: Requester,
    spec: BuildSpec,
    search_id: str | None = None,
) -> Accepted:
    """Accept a build, or return the one that was accepted under the idempotency key.

    ``search_id``: it is a candidate of that search, which says whether its artifact goes out.
    Nobody can watch a build before it is committed, so nobody is woken.

    Raises:
        InvalidRequest: its calibration data is sure to be refused, with the finding's code.
        QuotaExceeded: the tenant has as many unfinished jobs as it may have.
    """
    tenant_id = requester.tenant_id
    # Nothing is written before the end: then each kind of row goes out in one statement, and no
    # row is locked while this waits for its turn.
    with session.no_autoflush:
        builds.lock_tenant(session, tenant_id)
        body = spec.model_dump(mode="json")
        request = requester.request_digest or digest_of(canonical_json(body))
        known = accepted_before(session, requester, request)
        if known is not None:
            return known
        model = admit(session, tenant_id, spec)
        _refuse_data(_of_calibration(session, tenant_id, spec, model))
        spec = resolved(spec, live_nodes(session)) if spec.measure_on else spec
        build = _new_build(tenant_id, spec, model)
        build.idempotency_key, build.request_digest = requester.idempotency_key, request
        build.api_key_id, build.search_id = requester.api_key_id, search_id
        made = _start_all(session, policy, build, model, spec)
        quotas.require_room_for_jobs(session, tenant_id, made)
    session.flush()
    reach("submit.written")
    return Accepted(build, made)


def accepted_before(session: Session, requester: Requester, request: str) -> Accepted | None:
    """Return the build that the idempotency key asked for before; the caller has the tenant's lock.

    Raises:
        Conflict: it asked for another.
    """
    tenant_id, key = requester.tenant_id, requester.idempotency_key
    known = None if key is None else builds.with_idempotency_key(session, tenant_id, key)
    if known is None or key is None:
        return None
    same = _same(known, request, key)
    return Accepted(same, jobs.of_build(session, tenant_id, same.id), existed=True)


def _new_build(tenant_id: str, spec: BuildSpec, model: Model) -> Build:
    return Build(
        id=new_id("bld"),
        tenant_id=tenant_id,
        state=BuildState.PENDING,
        model_digest=model.digest,
        model_name=model.name,
        spec=spec.model_dump(mode="json"),
        priority=spec.priority,
        labels=dict(spec.labels),
        created_at=now(),
        event_seq=0,
    )


def _start_all(
    session: Session, policy: Policy, build: Build, model: Model, spec: BuildSpec
) -> list[Job]:
    """Make the jobs of every target and start the first of each; return them all."""
    ground = Ground(session, build)
    ground.spec, ground.model, ground.asking = spec, model, True
    live = ground.live
    plans = [on_skus(spec, plan_for(spec, row, live), live) for row in spec.targets]
    refuse_short(session, build.tenant_id, spec, plans, ground.live)
    session.add(build)
    events.add(session, build, "build", {"state": str(build.state)})
    made: list[Job] = []
    for row in plans:
        its_jobs = _new_jobs(session, policy, build, spec, row)
        release_from(ground, its_jobs[0], its_jobs)
        made += its_jobs
    roll_up(session, build, made)
    return made


def admit(session: Session, tenant_id: str, spec: BuildSpec) -> Model:
    """Check a build against its model and dataset; return the model.

    Raises:
        NotFound: unknown model, dataset, or artifact that a gate names.
        InvalidProfile, InvalidDataset, InvalidRequest: they do not fit.
    """
    if spec.compare is not None:
        return admit_compared(session, tenant_id, spec, spec.compare)
    model = catalogue.get_model(session, tenant_id, spec.model)
    declared = [TensorView.model_validate(row) for row in model.interface["inputs"]]
    made = [TensorView.model_validate(row) for row in model.interface["outputs"]]
    kept = spec.options.repair.keep_outputs
    require_outputs(made, kept)
    outputs = [row.name for row in made if not kept or row.name in kept]
    check_fixed(spec, declared)
    # What is fixed is no longer given: neither by a profile nor by a dataset.
    inputs = with_fixed(declared, spec.options.repair.fix_inputs)
    check_spec(spec, [row.name for row in inputs], outputs)
    check_profiles(inputs, spec.profiles)
    if spec.prepared_at:
        check_profiles(inputs, spec.prepared_at)
    if spec.evaluation is not None:
        dataset = catalogue.get_dataset(session, tenant_id, spec.evaluation)
        arrays = [TensorView.model_validate(row) for row in dataset.arrays]
        check_against(inputs, arrays, spec.evaluation_metric)
        # A dataset is measured under the first.
        for profile in measured_at(spec.profiles, spec.options.benchmark.shapes)[:1]:
            check_within(inputs, arrays, profile)
    require_named(session, tenant_id, spec.gates)
    check_precision(spec)
    check_plugins(spec)
    if spec.precision.calibration is not None:
        dataset = catalogue.get_dataset(session, tenant_id, spec.precision.calibration)
        arrays = [TensorView.model_validate(row) for row in dataset.arrays]
        check_against(inputs, arrays, rounded=True)
    return model


def _same(known: Build, request: str, key: str) -> Build:
    if known.request_digest != request:
        raise Conflict(
            f"Idempotency key {key[:80]!r} was used for another build.",
            code="idempotency_key_reused",
            why=f"Build {known.id} was submitted under it with a different body.",
            fix="Send the same body, or a new key.",
        )
    return known


def _new_jobs(
    session: Session, policy: Policy, build: Build, spec: BuildSpec, row: TargetPlan
) -> list[Job]:
    """Make the jobs of one target, all waiting, in the order in which they run."""
    made = [
        Job(
            id=new_id("job"),
            tenant_id=build.tenant_id,
            build_id=build.id,
            build=build,
            target=str(row.target),
            stage=str(stage),
            twin=twin,
            sku=sku,
            position=position,
            state=JobState.WAITING,
            attempt=0,
            failures=0,
            priority=spec.priority,
            backend_version=row.version_of(stage, twin),
            limits=_limits(spec, policy),
            unmeasured=row.reason if stage is Stage.PUBLISH else None,
            created_at=now(),
        )
        for position, (stage, twin, sku) in enumerate(row.steps)
    ]
    session.add_all(made)
    return made


def _limits(spec: BuildSpec, policy: Policy) -> dict[str, Any]:
    """Return the three clocks: the person's within the operator's."""
    asked = spec.limits
    return {
        "pending_s": min(asked.pending_s or policy.pending_s, policy.pending_s),
        "running_s": min(asked.running_s or policy.running_s, policy.running_s),
        "silent_s": min(asked.silent_s or policy.silent_s, policy.silent_s),
    }
