"""Put a build at the front of its tenant's jobs. What runs is not touched."""

from __future__ import annotations

from enginefarm.errors import Conflict
from enginefarm.state import BuildState
from storage import builds, events
from storage.database import Session, now


def bump(session: Session, tenant_id: str, build_id: str) -> None:
    """Let a build's jobs be announced before all others of its tenant; again changes nothing.

    Raises:
        NotFound: this tenant has no such build.
        Conflict: it has ended (code ``build_ended``).
    """
    builds.get(session, tenant_id, build_id)
    build = builds.lock(session, build_id)
    if BuildState(build.state).terminal:
        raise Conflict(
            f"Build {build.id} is {build.state}.",
            code="build_ended",
            why="There is nothing left to hurry.",
            fix="Submit it again if it should be built again.",
        )
    if build.bumped_at is None:
        build.bumped_at = now()
        session.flush()
        events.add(session, build, "build", {"state": str(build.state), "bumped": True})
