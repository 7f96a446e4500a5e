"""Whose turn it is, as the database tells it afterwards: by the order of claims, never by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from enginefarm.state import PLAIN_STAGES, Scope
from storage import access, tenants
from storage.database import Database
from tests.e2e.builds import QUICK, ended, model_of, rows, submit, view_of
from tests.e2e.conftest import wait_until
from tests.e2e.parts import NODE, Parts

pytestmark = [pytest.mark.e2e, pytest.mark.soak]


@dataclass(frozen=True)
class Tenant:
    """A tenant with a key of its own."""

    parts: Parts
    name: str
    key: str

    @property
    def folder(self) -> Path:
        """Where the farm's services keep their data."""
        return self.parts.folder

    def http(self) -> httpx.Client:
        """Return a client that speaks as the tenant does."""
        return self.parts.http(self.key)

    def submit(self, **changes: object) -> str:
        """Submit a build of a model that nobody has built."""
        return submit(self, model_of(self), QUICK, **changes)

    def ask(self, build: str, what: str) -> None:
        """Do something with a build."""
        with self.http() as http:
            http.post(f"/v1/builds/{build}/{what}").raise_for_status()


@dataclass(frozen=True)
class Claim:
    """A job that a node has taken."""

    build: str
    stage: str
    queued: datetime
    started: datetime


def claims(parts: Parts) -> list[Claim]:
    """Return what nodes have taken, in the order in which they did."""
    question = (
        "SELECT build_id, stage, jobs.queued_at, attempts.started_at FROM attempts "
        "JOIN jobs ON jobs.id = job_id WHERE attempts.node_id IS NOT NULL "
        "ORDER BY attempts.started_at"
    )
    return [Claim(*row) for row in rows(parts, question)]


def went_before(
    all_of: Sequence[Claim],
    claim: Claim,
    others: Sequence[str],
    since: datetime | None = None,
) -> list[Claim]:
    """Return the claims of other builds that came while this one waited, since a moment."""
    began = max(claim.queued, since or claim.queued)
    return [row for row in all_of if row.build in others and began < row.started < claim.started]


@pytest.fixture
def acme(parts: Parts) -> Tenant:
    return tenant(parts, "acme")


@pytest.fixture
def rival(parts: Parts) -> Tenant:
    return tenant(parts, "rival")


def tenant(parts: Parts, name: str, weight: float = 1.0) -> Tenant:
    """Make a tenant, or give it another weight; return it with a key."""
    database = Database(parts.services.postgres.url("enginefarm"), pool_size=1)
    with database.transaction() as session:
        row = access.ensure_tenant(session, name)
        key = access.create_key(session, row.id, "test", list(Scope))[1]
        session.flush()
        tenants.named(session, name).weight = weight
    database.dispose()
    return Tenant(parts, name, key)


def test_tenants_take_turns_by_weight_and_a_bump_goes_first(
    parts: Parts, acme: Tenant, rival: Tenant
) -> None:
    # So many that some wait to begin all the time: a node that is free takes whatever there is.
    campaign = [acme.submit(labels={"campaign": "nightly"}) for _ in range(8)]
    wait_until("some of the campaign", 240, lambda: done(parts, campaign) > 3 or None)
    short = rival.submit()
    assert ended(rival, short)["state"] == "succeeded"
    told = claims(parts)
    # A ring that was out already is not taken back; nothing else goes before.
    waits = [len(went_before(told, row, campaign)) for row in told if row.build == short]
    assert len(waits) == len(PLAIN_STAGES) - 1
    assert max(waits) <= 1
    assert not all(view_of(acme, build)["finished_at"] for build in campaign)

    tenant(parts, "rival", weight=0.001)  # it has had its share for a long time to come
    light, last = rival.submit(), campaign[-1]
    acme.ask(last, "bump")
    moment = rows(parts, "SELECT bumped_at FROM builds WHERE id = :b", b=last)[0][0]
    assert ended(acme, last)["state"] == "succeeded"
    told = claims(parts)
    bumped = [row for row in told if row.build == last and row.started > moment]
    assert bumped
    others = [*campaign[:-1], light]
    assert max(len(went_before(told, row, others, moment)) for row in bumped) <= 1
    assert not [row for row in told if row.build == light]
    for owner, builds in ((acme, campaign[:-1]), (rival, [light])):
        for build in builds:
            owner.ask(build, "cancel")


def done(parts: Parts, builds: Sequence[str]) -> int:
    """Return how many attempts of these builds nodes have ended."""
    question = (
        "SELECT build_id FROM attempts JOIN jobs ON jobs.id = job_id "
        "WHERE attempts.node_id IS NOT NULL AND attempts.finished_at IS NOT NULL"
    )
    return sum(row[0] in builds for row in rows(parts, question))


def test_a_benchmark_is_not_starved_by_small_jobs_that_came_later(
    parts: Parts, acme: Tenant
) -> None:
    parts.leave(NODE)
    parts.start("wide", slots="2")
    first, stream = acme.submit(), list[str]()

    def measured() -> Claim | None:
        if queued(parts, stream) < 3:  # there is always somebody who would take a free slot
            stream.append(acme.submit())
        mine = (row for row in claims(parts) if row.build == first)
        return next((row for row in mine if row.stage == "benchmark"), None)

    benchmark = wait_until("the benchmark", 240, measured)

    later = [row for row in claims(parts) if row.build in stream and row.queued > benchmark.queued]
    assert [row for row in later if row.started < benchmark.started] == []
    for build in [first, *stream]:
        acme.ask(build, "cancel")


def queued(parts: Parts, builds: Sequence[str]) -> int:
    """Return how many jobs of these builds could start."""
    found = rows(parts, "SELECT build_id FROM jobs WHERE state = 'queued'")
    return sum(row[0] in builds for row in found)
