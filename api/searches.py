"""Searches for a precision: begin one, list, show and cancel them. Decided in ``tasks.search``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Response

from api.auth import Entrance, needs
from api.openapi import KEYED, IdempotencyKey, problems
from api.parameters import EXAMPLE_DIGEST, Limit, a_word
from enginefarm.errors import InvalidRequest
from enginefarm.precision import Precision
from enginefarm.search import SearchSpec
from enginefarm.search_views import CandidateView, Outcome, SearchPage, SearchSummary, SearchView
from enginefarm.state import ArtifactState, BuildState, Scope
from storage import overview, searches
from storage.database import Session
from storage.models import Candidate, Search
from tasks.search import advance, begin, choice
from tasks.submit import Requester

router = APIRouter(prefix="/v1/searches", tags=["builds"])
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
SearchId = Annotated[
    str, Path(max_length=64, description="A search's id.", examples=["srch_06fh2k9w0q4s1x3z"])
]
_CURSOR = re.compile(r"srch_[0-9a-z]{1,60}")
_EXAMPLES: dict[str, Any] = {
    "everyday": {
        "summary": "The fastest precision in which a detector is still near itself",
        "value": {
            "build": {"model": EXAMPLE_DIGEST, "targets": ["onnxruntime@cpu"]},
            "calibration": EXAMPLE_DIGEST,
            "require": [{"metric": "cosine", "at_least": 0.99}],
            "budget": {"candidates": 12},
        },
    }
}


@router.post(
    "",
    summary="Begin a search",
    status_code=201,
    responses=problems(
        *KEYED,
        404,
        409,
        413,
        422,
        good={
            200: {
                "model": SearchView,
                "description": "The search that this Idempotency-Key began before.",
            }
        },
    ),
)
def ask(
    spec: Annotated[SearchSpec, Body(openapi_examples=_EXAMPLES)],
    response: Response,
    entrance: Submitter,
    *,
    idempotency_key: IdempotencyKey = None,
) -> SearchView:
    """Look for a precision that meets the requirements, by building candidates and judging them."""
    with entrance.transaction() as (session, caller):
        requester = Requester(caller.tenant_id, caller.key_id, idempotency_key)
        begun = begin.begin(session, requester, spec)
        response.status_code = 200 if begun.existed else 201
        response.headers["Location"] = f"/v1/searches/{begun.search.id}"
        return _view(session, begun.search)


@router.get("", summary="List searches", responses=problems(*KEYED))
def page(
    entrance: Reader,
    *,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(description="next_cursor of the page before this one.")
    ] = None,
) -> SearchPage:
    """Return a page of searches, newest first."""
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise InvalidRequest(
            "This is not a cursor of ours.",
            code="invalid_cursor",
            fix="Take next_cursor from the page before, unchanged.",
        )
    with entrance.transaction() as (session, caller):
        found = searches.page(session, caller.tenant_id, limit=limit + 1, before=cursor)
        shown = found[:limit]
        tried = searches.candidates_of(session, [row.id for row in shown])
        return SearchPage(
            items=[SearchSummary(**_summary(row, tried.get(row.id, []))) for row in shown],
            next_cursor=shown[-1].id if len(found) > limit else None,
        )


@router.get("/{search_id}", summary="Show a search", responses=problems(*KEYED, 404))
def show(search_id: SearchId, entrance: Reader) -> SearchView:
    """Return a search with its candidates, what came of them, and which one was chosen."""
    with entrance.transaction() as (session, caller):
        return _view(session, searches.get(session, caller.tenant_id, a_word(search_id)))


@router.post("/{search_id}/cancel", summary="Cancel a search", responses=problems(*KEYED, 404))
def stop(search_id: SearchId, entrance: Submitter) -> SearchView:
    """Cancel a search and its candidates; what another build waits for runs on."""
    caller = entrance.caller()
    advance.cancel(entrance.farm, caller.tenant_id, a_word(search_id))
    with entrance.farm.database.transaction() as session:
        return _view(session, searches.get(session, caller.tenant_id, search_id))


def _view(session: Session, row: Search) -> SearchView:
    tried = searches.candidates(session, row.id)
    states = overview.build_states(session, [each.build_id for each in tried if each.build_id])
    outcomes = _outcomes(tried)
    best = set(choice.front(outcomes))
    shown = _as_they_are_now(session, row.tenant_id, outcomes)
    return SearchView(
        **_summary(row, tried),
        spec=SearchSpec.model_validate(row.spec),
        notes=row.notes,
        candidates=[
            _candidate(each, states, shown.get(each.number), on_front=each.number in best)
            for each in tried
        ],
    )


def _outcomes(tried: Sequence[Candidate]) -> dict[int, Outcome]:
    return {
        each.number: Outcome.model_validate(each.outcome)
        for each in tried
        if each.outcome is not None
    }


def _as_they_are_now(
    session: Session, tenant_id: str, outcomes: Mapping[int, Outcome]
) -> dict[int, Outcome]:
    """Let a candidate whose artifact was revoked since say so; the rest is as it came out."""
    named = {told.artifact for told in outcomes.values() if told.artifact is not None}
    found = overview.artifacts(session, tenant_id, named)
    gone = {name for name, made in found.items() if made.state is ArtifactState.REVOKED}
    revoked = {"artifact_state": ArtifactState.REVOKED}
    return {
        number: told.model_copy(update=revoked) if told.artifact in gone else told
        for number, told in outcomes.items()
    }


def _candidate(
    row: Candidate, states: dict[str, BuildState], outcome: Outcome | None, *, on_front: bool
) -> CandidateView:
    return CandidateView(
        number=row.number,
        why=row.why,
        precision=Precision.model_validate(row.precision),
        profile=row.profile,
        build=row.build_id,
        build_state=states.get(row.build_id or ""),
        outcome=outcome,
        on_front=on_front,
    )


def _summary(row: Search, tried: Sequence[Candidate]) -> dict[str, Any]:
    chosen = next((each for each in tried if each.number == row.chosen), None)
    return {
        "id": row.id,
        "state": row.state,
        "model": row.model_digest,
        "model_name": row.model_name,
        "target": row.spec["build"]["targets"][0],
        "tried": sum(not (each.outcome or {}).get("untried") for each in tried),
        "budget": row.spec["budget"]["candidates"],
        "chosen": row.chosen,
        "artifact": (chosen.outcome or {}).get("artifact") if chosen else None,
        "verdict": row.verdict,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }
