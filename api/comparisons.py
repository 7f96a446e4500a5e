"""Comparisons of two artifacts: ask for one, list and show them, fetch what was signed."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Response
from pydantic import AfterValidator

from api.auth import Entrance, needs
from api.openapi import KEYED, IdempotencyKey, problems
from api.parameters import EXAMPLE_DIGEST, Limit, a_word
from enginefarm.comparison import ComparisonSpec
from enginefarm.comparison_report import ComparisonReport
from enginefarm.comparison_views import ComparisonPage, ComparisonSummary, ComparisonView
from enginefarm.digest import require_digest
from enginefarm.errors import Failure, InvalidRequest, NotFound
from enginefarm.manifest import BUNDLE_TYPE
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildKind, Scope
from storage import artifacts, builds, jobs, overview
from storage.database import Session
from storage.models import Build, Job
from tasks.comparing.ask import ask as begin
from tasks.fault_points import reach
from tasks.submit import Requester

router = APIRouter(prefix="/v1/comparisons", tags=["builds"])
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
ComparisonId = Annotated[
    str,
    AfterValidator(a_word),
    Path(
        max_length=64,
        description="A comparison's id, which is that of a build.",
        examples=["bld_06fh2k9w0q4s1x3z"],
    ),
]
_CURSOR = re.compile(r"bld_[0-9a-z]{1,60}")
_EXAMPLES: dict[str, Any] = {
    "everyday": {
        "summary": "Last month's engine, and the one of the new version",
        "value": {
            "first": EXAMPLE_DIGEST,
            "second": "sha256:" + "7" * 64,
            "options": {"min_duration_ms": 5000},
        },
    }
}


@router.post(
    "",
    summary="Compare two artifacts",
    status_code=201,
    responses=problems(
        *KEYED,
        404,
        409,
        413,
        422,
        good={
            200: {
                "model": ComparisonView,
                "description": "The comparison that this Idempotency-Key asked for before.",
            }
        },
    ),
)
def ask(
    spec: Annotated[ComparisonSpec, Body(openapi_examples=_EXAMPLES)],
    response: Response,
    entrance: Submitter,
    *,
    idempotency_key: IdempotencyKey = None,
) -> ComparisonView:
    """Measure two artifacts in turns on one device, and say which of them is faster."""
    with entrance.transaction() as (session, caller):
        requester = Requester(caller.tenant_id, caller.key_id, idempotency_key)
        accepted = begin(session, entrance.farm.policy, requester, spec)
        response.status_code = 200 if accepted.existed else 201
        response.headers["Location"] = f"/v1/comparisons/{accepted.build.id}"
        view = _view(accepted.build, list(accepted.jobs))
    reach("submit.committed")
    return view


@router.get("", summary="List comparisons", responses=problems(*KEYED))
def page(
    entrance: Reader,
    *,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(description="next_cursor of the page before this one.")
    ] = None,
    artifact: Annotated[
        str | None, Query(description="Only with this artifact, by its digest.")
    ] = None,
) -> ComparisonPage:
    """Return a page of comparisons, newest first."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidRequest(
            "This is not a cursor of ours.",
            code="invalid_cursor",
            fix="Take next_cursor from the page before, unchanged.",
        )
    with entrance.transaction() as (session, caller):
        found = builds.page(
            session,
            caller.tenant_id,
            limit=limit + 1,
            before=cursor,
            kind=BuildKind.COMPARISON,
            compared=require_digest(artifact) if artifact else None,
        )
        shown = found[:limit]
        its_jobs = overview.jobs_of_builds(session, [row.id for row in shown])
        return ComparisonPage(
            items=[ComparisonSummary(**_summary(row, its_jobs.get(row.id, []))) for row in shown],
            next_cursor=shown[-1].id if len(found) > limit else None,
        )


@router.get("/{comparison_id}", summary="Show a comparison", responses=problems(*KEYED, 404))
def show(comparison_id: ComparisonId, entrance: Reader) -> ComparisonView:
    """Return a comparison with its numbers and the verdict on the second artifact."""
    with entrance.transaction() as (session, caller):
        row = _get(session, caller.tenant_id, comparison_id)
        return _view(row, jobs.of_build(session, caller.tenant_id, row.id))


@router.get(
    "/{comparison_id}/attestation",
    summary="Fetch what was signed",
    response_class=Response,
    responses=problems(
        *KEYED,
        404,
        good={
            200: {
                "description": "A Sigstore bundle: both artifacts, and the report about them.",
                "content": {BUNDLE_TYPE: {"example": {"mediaType": BUNDLE_TYPE}}},
            }
        },
    ),
)
def attestation(comparison_id: ComparisonId, entrance: Reader) -> Response:
    """Return the signed statement of a comparison, to verify with the farm's keys."""
    with entrance.transaction() as (session, caller):
        row = _get(session, caller.tenant_id, comparison_id)
        its_jobs = jobs.of_build(session, caller.tenant_id, row.id)
        job = _signed(its_jobs)
        tenant_id = caller.tenant_id
        signed = artifacts.statement(session, tenant_id, job.cached_from or job.id) if job else None
        if signed is None:
            raise NotFound(
                f"The comparison {row.id} has no signed statement.",
                code="attestation_missing",
                why=f"It is {row.state}.",
                fix="Wait until it has succeeded.",
            )
        data = signed.bundle
    headers = {"Cache-Control": "private, no-cache"}
    return Response(data, media_type=BUNDLE_TYPE, headers=headers)


def _get(session: Session, tenant_id: str, comparison_id: str) -> Build:
    row = builds.get(session, tenant_id, comparison_id)
    if not row.spec.get("compare"):
        raise NotFound(
            f"There is no comparison {comparison_id[:40]!r}.",
            code="unknown_comparison",
            why="A build of this id makes engines.",
            fix="GET /v1/comparisons lists yours.",
        )
    return row


def _view(row: Build, its_jobs: list[Job]) -> ComparisonView:
    failed = next((job.failure for job in its_jobs if job.failure is not None), None)
    return ComparisonView(
        **_summary(row, its_jobs),
        report=_report(its_jobs),
        signed=_signed(its_jobs) is not None,
        failure=None if failed is None else Failure.model_validate(failed),
    )


def _summary(row: Build, its_jobs: list[Job]) -> dict[str, Any]:
    compare = BuildSpec.model_validate(row.spec).compare
    told = _report(its_jobs)
    return {
        "id": row.id,
        "state": row.state,
        "target": row.spec["targets"][0],
        "first": compare.first if compare else "",
        "second": compare.second if compare else "",
        "verdict": None if told is None else told.verdict,
        "cached": bool(its_jobs) and its_jobs[0].cached_from is not None,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }


def _signed(its_jobs: list[Job]) -> Job | None:
    return next((job for job in its_jobs if "comparison" in (job.result or {})), None)


def _report(its_jobs: list[Job]) -> ComparisonReport | None:
    job = _signed(its_jobs)
    return None if job is None else ComparisonReport.model_validate((job.result or {})["report"])
