"""The farm's numbers, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.auth import FarmOf
from api.measures import CONTENT_TYPE, Measures
from api.openapi import problems
from storage import overview, retention_rounds

router = APIRouter(tags=["operation"])


@router.get(
    "/metrics",
    summary="Read the numbers",
    response_class=Response,
    responses=problems(503, good={200: {"content": {"text/plain": {}}}}),
)
def numbers(request: Request, farm: FarmOf) -> Response:
    """Count what the database holds now, and return it with the counts of this process."""
    measures: Measures = request.app.state.measures
    with farm.database.transaction() as session:
        measures.stock(
            builds=overview.builds_by_state(session),
            jobs=overview.unfinished_by_state_and_queue(session),
            nodes=overview.nodes_by_state(session),
            outbox=overview.unsent_rings(session),
            unreadable=retention_rounds.unreadable(session),
        )
    return Response(measures.render(), headers={"Content-Type": CONTENT_TYPE})
