"""Take a build in: check it, then write build, jobs and rings in one transaction."""

from __future__ import annotations

from typing import Any

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import Conflict
from enginefarm.profile import check_profiles
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, JobState
from enginefarm.views import PlanView, TensorView
from storage import builds, catalogue, events
from storage.database import Session, now
from storage.ids import new_id
from storage.models import Build, Job, Model
from tasks.admission import check_spec
from tasks.datasets import check_against
from tasks.explain import Explainer
from tasks.farm import Farm, Policy
from tasks.moves import roll_up
from tasks.plan import TargetPlan, plan_target
from tasks.release import live_nodes, release


def plan(farm: Farm, tenant_id: str, spec: BuildSpec, *, explain: bool = False) -> PlanView:
    """Say what a submit would do: keys, hits and routing. Nothing is written."""
    with farm.database.transaction() as session:
        model = admit(session, tenant_id, spec)
        live = live_nodes(session)
        plans = [plan_target(spec, target, live) for target in spec.targets]
        targets = [
            Explainer(session, tenant_id, spec, model, row, live, explain).target() for row in plans
        ]
    return PlanView(model=spec.model, targets=targets)


def submit(
    farm: Farm, tenant_id: str, spec: BuildSpec, idempotency_key: str | None = None
) -> tuple[str, bool]:
    """Accept a build; return its id and whether it existed under the idempotency key."""
    body = spec.model_dump(mode="json")
    request = digest_of(canonical_json(body))
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        if idempotency_key is not None:
            known = builds.with_idempotency_key(session, tenant_id, idempotency_key)
            if known is not None:
                return _same(known, request, idempotency_key), True
        model = admit(session, tenant_id, spec)
        live = live_nodes(session)
        plans = [plan_target(spec, target, live) for target in spec.targets]
        build = Build(
            id=new_id("bld"),
            tenant_id=tenant_id,
            state=BuildState.PENDING,
            model_digest=model.digest,
            model_name=model.name,
            spec=body,
            priority=spec.priority,
            labels=dict(spec.labels),
            idempotency_key=idempotency_key,
            request_digest=request,
            created_at=now(),
            event_seq=0,
        )
        session.add(build)
        session.flush()
        events.add(session, tenant_id, build.id, "build", {"state": str(build.state)})
        for row in plans:
            first = _add_jobs(session, farm.policy, build, spec, row)
            release(session, build, first)
        roll_up(session, build)
    farm.progress.wake(build.id)
    return build.id, False


def admit(session: Session, tenant_id: str, spec: BuildSpec) -> Model:
    """Check a build against its model and dataset; return the model.

    Raises:
        NotFound: unknown model or dataset.
        InvalidProfile, InvalidDataset, InvalidRequest: they do not fit.
    """
    model = catalogue.get_model(session, tenant_id, spec.model)
    inputs = [TensorView.model_validate(row) for row in model.interface["inputs"]]
    outputs = [row["name"] for row in model.interface["outputs"]]
    check_spec(spec, [row.name for row in inputs], outputs)
    check_profiles(inputs, spec.profiles)
    if spec.evaluation is not None:
        dataset = catalogue.get_dataset(session, tenant_id, spec.evaluation)
        check_against(inputs, [TensorView.model_validate(row) for row in dataset.arrays])
    return model


def _same(known: Build, request: str, key: str) -> str:
    if known.request_digest != request:
        raise Conflict(
            f"Idempotency key {key[:80]!r} was used for another build.",
            code="idempotency_key_reused",
            why=f"Build {known.id} was submitted under it with a different body.",
            fix="Send the same body, or a new key.",
        )
    return known.id


def _add_jobs(
    session: Session, policy: Policy, build: Build, spec: BuildSpec, row: TargetPlan
) -> Job:
    """Write the jobs of one target, all waiting; return the first."""
    made = [
        Job(
            id=new_id("job"),
            tenant_id=build.tenant_id,
            build_id=build.id,
            target=str(row.target),
            stage=str(stage),
            position=position,
            state=JobState.WAITING,
            attempt=0,
            failures=0,
            priority=spec.priority,
            backend_version=row.version,
            limits=_limits(spec, policy),
            created_at=now(),
        )
        for position, stage in enumerate(row.stages)
    ]
    session.add_all(made)
    session.flush()
    return made[0]


def _limits(spec: BuildSpec, policy: Policy) -> dict[str, Any]:
    """Return the three clocks: the person's within the operator's."""
    asked = spec.limits
    return {
        "pending_s": min(asked.pending_s or policy.pending_s, policy.pending_s),
        "running_s": min(asked.running_s or policy.running_s, policy.running_s),
        "silent_s": min(asked.silent_s or policy.silent_s, policy.silent_s),
    }
