"""Builds: made once, found by tenant, listed newest first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import exists, func, or_, select, text

from enginefarm.errors import NotFound
from enginefarm.state import BuildKind, BuildState
from storage.database import Session
from storage.models import Build, Job


def lock_tenant(session: Session, tenant_id: str) -> None:
    """Take turns with everything else that queues, joins or ends this tenant's jobs.

    Whoever takes this lock takes it before any row; so joining and cancelling cannot cross.
    """
    session.execute(
        text("SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 0))"), {"tenant": tenant_id}
    )


def get(session: Session, tenant_id: str, build_id: str) -> Build:
    """Return a tenant's build.

    Raises:
        NotFound: this tenant has no such build (code ``unknown_build``).
    """
    row = session.scalar(select(Build).where(Build.tenant_id == tenant_id, Build.id == build_id))
    if row is None:
        raise NotFound(
            f"There is no build {build_id[:40]!r}.",
            code="unknown_build",
            why="It was never submitted here, or belongs to another tenant.",
            fix="GET /v1/builds lists yours.",
        )
    return row


def lock(session: Session, build_id: str) -> Build:
    """Return a build's row, locked until the transaction ends."""
    return session.scalars(
        select(Build)
        .where(Build.id == build_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()


def with_idempotency_key(session: Session, tenant_id: str, key: str) -> Build | None:
    """Return the build that was submitted under this key."""
    return session.scalar(
        select(Build).where(Build.tenant_id == tenant_id, Build.idempotency_key == key)
    )


def kind_of(build: Build) -> BuildKind:
    """Return what a build asks for."""
    if build.spec.get("compare"):
        return BuildKind.COMPARISON
    return BuildKind.CHECK if build.spec.get("until") else BuildKind.BUILD


def page(  # noqa: PLR0913 - one parameter for each filter
    session: Session,
    tenant_id: str,
    *,
    limit: int,
    before: str | None = None,
    states: Collection[BuildState] = (),
    model: str | None = None,
    target: str | None = None,
    labels: Mapping[str, str] | None = None,
    kind: BuildKind | None = None,
    compared: str | None = None,
) -> Sequence[Build]:
    """Return at most ``limit`` builds older than ``before``, the newest first.

    Comparisons only if that is the kind; ``compared``: one of the two artifacts is this.
    """
    query = select(Build).where(Build.tenant_id == tenant_id)
    if before is not None:
        query = query.where(Build.id < before)
    if states:
        query = query.where(Build.state.in_(list(states)))
    if model is not None:
        query = query.where(Build.model_digest == model)
    if labels:
        query = query.where(Build.labels.contains(dict(labels)))
    if target is not None:
        query = query.where(exists().where(Job.build_id == Build.id, Job.target == target))
    compares = func.coalesce(Build.spec["compare"].as_string(), "") != ""
    query = query.where(compares if kind is BuildKind.COMPARISON else ~compares)
    if compared is not None:
        sides = (Build.spec["compare"][side].as_string() for side in ("first", "second"))
        query = query.where(or_(*(side == compared for side in sides)))
    if kind in {BuildKind.BUILD, BuildKind.CHECK}:
        # A build that asks for engines has no such word, or null in its place.
        checks = func.coalesce(Build.spec["until"].as_string(), "") != ""
        query = query.where(checks if kind is BuildKind.CHECK else ~checks)
    return session.scalars(query.order_by(Build.id.desc()).limit(limit)).all()
