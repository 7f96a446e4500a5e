"""Builds: ask for one, list, show and cancel them. What may happen is decided in ``tasks``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Response

from api import views
from api.auth import Caller, Entrance, needs
from api.openapi import KEYED, IdempotencyKey, problems
from api.parameters import EXAMPLE_DIGEST, BuildId, Flag, Limit
from enginefarm.digest import require_digest
from enginefarm.errors import InvalidRequest
from enginefarm.plan_views import PlanView
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildKind, BuildState, Scope
from enginefarm.target import Target
from enginefarm.views import (
    BuildPage,
    BuildView,
)
from storage import builds, jobs, models, overview
from storage.database import Session
from tasks import bump, cancel, submit
from tasks.comparing.begin import require_no_comparison
from tasks.fault_points import reach

router = APIRouter(prefix="/v1/builds", tags=["builds"])
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
Kind = Annotated[
    BuildKind | None,
    Query(description="Only builds, checks (until: check) or comparisons; absent: the first two."),
]
_CURSOR = re.compile(r"bld_[0-9a-z]{1,60}")
_EXAMPLES: dict[str, Any] = {
    "everyday": {
        "summary": "A detector with dynamic shapes, for two targets, with a gate",
        "value": {
            "model": EXAMPLE_DIGEST,
            "targets": ["onnxruntime@cpu", "tensorrt-rtx@sm_89"],
            "profiles": [
                {"x": {"min": [1, 3, 160, 160], "opt": [1, 3, 320, 480], "max": [4, 3, 960, 960]}}
            ],
            "gates": [{"metric": "cosine", "at_least": 0.999, "target": "onnxruntime@cpu"}],
            "labels": {"team": "vision"},
        },
    }
}


@router.post(
    "",
    summary="Ask for a build",
    status_code=201,
    response_model=None,
    responses=problems(
        *KEYED,
        404,
        409,
        413,
        422,
        good={
            200: {
                "model": BuildView | PlanView,
                "description": "The build that this Idempotency-Key made before; or, with dry_run, "
                "the plan: keys, hits and routing.",
            },
            201: {"model": BuildView, "description": "The new build."},
        },
    ),
)
def ask(
    spec: Annotated[BuildSpec, Body(openapi_examples=_EXAMPLES)],
    response: Response,
    entrance: Submitter,
    *,
    dry_run: Annotated[Flag, Query(description="Only plan; build nothing.")] = False,
    explain: Annotated[
        Flag, Query(description="With dry_run: for each miss, the nearest key and what differs.")
    ] = False,
    idempotency_key: IdempotencyKey = None,
) -> BuildView | PlanView:
    """Ask for one model to be built for each target, measured, gated, signed and published."""
    require_no_comparison(spec)
    with entrance.transaction() as (session, caller):
        if dry_run or explain:
            response.status_code = 200
            return submit.plan(session, caller.tenant_id, spec, explain=explain)
        requester = submit.Requester(caller.tenant_id, caller.key_id, idempotency_key)
        accepted = submit.submit(session, entrance.farm.policy, requester, spec)
        response.status_code = 200 if accepted.existed else 201
        response.headers["Location"] = f"/v1/builds/{accepted.build.id}"
        # A new build has no attempts and no progress to ask for.
        asked = entrance if accepted.existed else None
        around = _around(session, caller, accepted.jobs, asked)
        view = views.build(accepted.build, accepted.jobs, around)
    reach("submit.committed")
    return view


@router.get("", summary="List builds", responses=problems(*KEYED))
def page(  # noqa: PLR0913 - one parameter for each filter
    entrance: Reader,
    *,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(description="next_cursor of the page before this one.")
    ] = None,
    state: Annotated[
        list[BuildState] | None, Query(description="Only in these states; repeatable.")
    ] = None,
    model: Annotated[str | None, Query(description="Only of this model, by its digest.")] = None,
    target: Annotated[
        str | None, Query(description="Only with this target.", examples=["onnxruntime@cpu"])
    ] = None,
    label: Annotated[
        list[str] | None, Query(description="Only with this label, key=value; repeatable.")
    ] = None,
    kind: Kind = None,
) -> BuildPage:
    """Return a page of builds, newest first."""
    with entrance.transaction() as (session, caller):
        found = builds.page(
            session,
            caller.tenant_id,
            limit=limit + 1,
            before=_cursor(cursor),
            states=state or [],
            model=require_digest(model) if model else None,
            # In an address + stands for a space, which no target has.
            target=str(Target.parse(target.replace(" ", "+"))) if target else None,
            labels=_labels(label or []),
            kind=kind,
        )
        shown = found[:limit]
        by_build = overview.jobs_of_builds(session, [row.id for row in shown])
        around = _around(session, caller, [job for each in by_build.values() for job in each])
        return BuildPage(
            items=[views.build_summary(row, by_build.get(row.id, []), around) for row in shown],
            next_cursor=shown[-1].id if len(found) > limit else None,
        )


@router.get("/{build_id}", summary="Show a build", responses=problems(*KEYED, 404))
def show(build_id: BuildId, entrance: Reader) -> BuildView:
    """Return a build with its jobs, their attempts, and how far the running ones are."""
    with entrance.transaction() as (session, caller):
        return view_of(session, entrance, caller, build_id)


@router.post("/{build_id}/cancel", summary="Cancel a build", responses=problems(*KEYED, 404))
def stop(build_id: BuildId, entrance: Submitter) -> BuildView:
    """Cancel a build; its running jobs end within seconds, unless another build wants them."""
    caller = entrance.caller()
    cancel.cancel(entrance.farm, caller.tenant_id, build_id)
    with entrance.farm.database.transaction() as session:
        return view_of(session, entrance, caller, build_id)


@router.post("/{build_id}/bump", summary="Put a build first", responses=problems(*KEYED, 404, 409))
def hurry(build_id: BuildId, entrance: Submitter) -> BuildView:
    """Let a build's jobs go before all others of the tenant; what runs is not touched."""
    with entrance.transaction() as (session, caller):
        bump.bump(session, caller.tenant_id, build_id)
        view = view_of(session, entrance, caller, build_id)
    entrance.farm.progress.wake(build_id)
    return view


def view_of(session: Session, entrance: Entrance, caller: Caller, build_id: str) -> BuildView:
    """Return a build in full."""
    row = builds.get(session, caller.tenant_id, build_id)
    its_jobs = jobs.of_build(session, caller.tenant_id, build_id)
    return views.build(row, its_jobs, _around(session, caller, its_jobs, entrance))


def _around(
    session: Session,
    caller: Caller,
    its_jobs: Sequence[models.Job],
    entrance: Entrance | None = None,
) -> views.Around:
    """Collect what stands around jobs; attempts and progress only for a build in full."""
    ids = [job.id for job in its_jobs]
    digests = [digest for job in its_jobs if (digest := views.artifact_of(job)) is not None]
    artifacts = overview.artifacts(session, caller.tenant_id, digests)
    if entrance is None:
        return views.Around(artifacts=artifacts)
    attempts = overview.attempts_of_jobs(session, ids)
    node_ids = {job.node_id for job in its_jobs} | {
        attempt.node_id for each in attempts.values() for attempt in each
    }
    return views.Around(
        artifacts=artifacts,
        attempts=attempts,
        nodes=overview.node_names(session, {each for each in node_ids if each is not None}),
        progress=entrance.farm.progress.latest(ids),
    )


def _cursor(text: str | None) -> str | None:
    if text is None or _CURSOR.fullmatch(text):
        return text
    raise InvalidRequest(
        "This is not a cursor of ours.",
        code="invalid_cursor",
        fix="Take next_cursor from the page before, unchanged.",
    )


def _labels(texts: list[str]) -> dict[str, str]:
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or "\0" in text:
            raise InvalidRequest(
                f"{text[:80]!r} is not a label.",
                code="invalid_label",
                fix="Write label=key=value, for example ?label=team=vision.",
            )
        labels[key] = value
    return labels
