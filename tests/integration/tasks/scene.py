"""What a test of the life of a build has in its hand: one tenant, one model, and the loops."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import Failure
from enginefarm.provenance import VerifiedArtifact, verify_artifact
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from enginefarm.trust_views import TrustKey
from storage import access, artifacts, blobs, builds, catalogue, events, jobs, signing
from storage.database import now
from storage.models import Artifact, Attempt, Attestation, Build, Event, Job, Node, Outbox
from storage.objects import S3Objects
from storage.signing import StatementSigner
from tasks.chains import engine_jobs
from tasks.farm import Farm
from tasks.publish import publish_due
from tasks.routing import NODE_STAGES
from tasks.settle import settle_due
from tasks.submit import Accepted, Requester
from tasks.submit import submit as submit_build
from tests.integration.tasks.fake_node import FakeNode

CPU = "onnxruntime@cpu"
TENSOR = {"name": "x", "dtype": "float32", "shape": [1, 4]}
INTERFACE: dict[str, Any] = {
    "inputs": [TENSOR],
    "outputs": [TENSOR | {"name": "y"}],
    "opsets": {"": 17},
    "node_count": 1,
}


@dataclass
class Scene:
    """A farm with a tenant and a model of its own."""

    farm: Farm
    tenant_id: str
    model: str
    api_key_id: str | None = None

    @classmethod
    def on(cls, farm: Farm, tenant: str = "acme") -> Scene:
        with farm.database.transaction() as session:
            owner = access.ensure_tenant(session, tenant).id
        return cls(farm, owner, add_model(farm, owner))

    def other(self, interface: dict[str, Any] = INTERFACE) -> str:
        """Add another model of this tenant; return its digest."""
        return add_model(self.farm, self.tenant_id, interface=interface)

    @property
    def signer(self) -> StatementSigner:
        assert self.farm.signer is not None
        return self.farm.signer

    @property
    def bucket(self) -> S3Objects:
        assert isinstance(self.farm.objects, S3Objects)
        return self.farm.objects

    def spec(self, *targets: str, **fields: object) -> BuildSpec:
        body: dict[str, object] = {"model": self.model, "targets": list(targets) or [CPU]} | fields
        return BuildSpec.model_validate(body)

    def submit(self, *targets: str, key: str | None = None, **fields: object) -> str:
        return self.accept(self.spec(*targets, **fields), key).build.id

    def accept(self, spec: BuildSpec, key: str | None = None) -> Accepted:
        with self.farm.database.transaction() as session:
            requester = Requester(self.tenant_id, self.api_key_id, key)
            return submit_build(session, self.farm.policy, requester, spec)

    def build(self, build_id: str) -> Build:
        with self.farm.database.transaction() as session:
            return builds.get(session, self.tenant_id, build_id)

    def state(self, build_id: str) -> BuildState:
        return BuildState(self.build(build_id).state)

    def jobs(self, build_id: str, target: str = CPU) -> dict[Stage, Job]:
        with self.farm.database.transaction() as session:
            rows = jobs.of_build(session, self.tenant_id, build_id)
        mine = [row for row in engine_jobs(rows) if row.target == target]
        return {Stage(row.stage): row for row in mine}

    def on_skus(self, build_id: str, target: str) -> dict[str, Job]:
        """Return the jobs that measure a target's engine, by SKU."""
        with self.farm.database.transaction() as session:
            rows = jobs.of_build(session, self.tenant_id, build_id)
        return {row.sku: row for row in rows if row.target == target and row.sku is not None}

    def twin(self, build_id: str, target: str = CPU) -> dict[Stage, Job]:
        """Return the jobs that build the twin of a target's engine."""
        with self.farm.database.transaction() as session:
            rows = jobs.of_build(session, self.tenant_id, build_id)
        mine = [row for row in rows if row.target == target and row.twin is not None]
        return {Stage(row.stage): row for row in mine}

    def job(self, build_id: str, stage: Stage, target: str = CPU) -> Job:
        return self.jobs(build_id, target)[stage]

    def states(self, build_id: str, target: str = CPU) -> list[JobState]:
        return [row.state for row in self.jobs(build_id, target).values()]

    def failure(self, job: Job) -> Failure:
        with self.farm.database.transaction() as session:
            row = jobs.find(session, job.id)
            assert row is not None
            return Failure.model_validate(row.failure)

    def attempts(self, job: Job) -> list[Attempt]:
        with self.farm.database.transaction() as session:
            query = select(Attempt).where(Attempt.job_id == job.id).order_by(Attempt.number)
            return list(session.scalars(query))

    def rings(self, build_id: str) -> list[Outbox]:
        with self.farm.database.transaction() as session:
            query = select(Outbox).join(Job, Job.id == Outbox.job_id)
            return list(session.scalars(query.where(Job.build_id == build_id).order_by(Outbox.id)))

    def events(self, build_id: str) -> list[Event]:
        with self.farm.database.transaction() as session:
            return list(events.after(session, self.tenant_id, build_id, 0, 1000))

    def count(self, row: type[Artifact | Attestation | Job]) -> int:
        with self.farm.database.transaction() as session:
            return session.scalar(select(func.count()).select_from(row)) or 0

    def settle(self) -> None:
        settle_due(self.farm)

    def publish(self) -> None:
        publish_due(self.farm, self.signer)

    def do(self, node: FakeNode, build_id: str, stage: Stage, target: str = CPU) -> None:
        """Let a node do one stage, and what is queued before it, and settle it."""
        earlier = NODE_STAGES[: NODE_STAGES.index(stage)]
        for row in self.jobs(build_id, target).values():
            if Stage(row.stage) in earlier and row.state is JobState.QUEUED:
                self.do(node, build_id, Stage(row.stage), target)
        work = node.take(self.job(build_id, stage, target))
        assert node.tell(work, node.done(work)) is JobState.UPLOADED
        self.settle()

    def run(self, node: FakeNode, build_id: str, target: str = CPU) -> None:
        """Let a node do whatever is queued of a target, up to the publisher's door."""
        for stage in NODE_STAGES:
            if stage is Stage.BENCHMARK:
                self.run_twin(node, build_id, target)
            job = self.jobs(build_id, target).get(stage)
            if job is not None and job.state is JobState.QUEUED:
                self.do(node, build_id, stage, target)

    def run_twin(self, node: FakeNode, build_id: str, target: str = CPU) -> None:
        """Let a node build the twin of a target's engine, as far as it is queued."""
        for stage in NODE_STAGES:
            job = self.twin(build_id, target).get(stage)
            if job is not None and job.state is JobState.QUEUED:
                work = node.take(job)
                assert node.tell(work, node.done(work)) is JobState.UPLOADED
                self.settle()

    def withdraw(self, build_id: str) -> None:
        """Let nobody take from the cache what a build made."""
        with self.farm.database.transaction() as session:
            for row in jobs.of_build(session, self.tenant_id, build_id):
                jobs.withdraw(session, row)

    def node(self, node_id: str) -> Node:
        with self.farm.database.transaction() as session:
            return session.get_one(Node, node_id)

    def age(self, job: Job, column: str, seconds: float) -> None:
        """Let a moment of a job lie in the past."""
        with self.farm.database.transaction() as session:
            past = now() - timedelta(seconds=seconds)
            session.execute(update(Job).where(Job.id == job.id).values({column: past}))

    def mark_sent(self, build_id: str, seconds: float) -> None:
        """Let a build's rings have been sent a while ago."""
        with self.farm.database.transaction() as session:
            mine = select(Job.id).where(Job.build_id == build_id)
            past = now() - timedelta(seconds=seconds)
            session.execute(update(Outbox).where(Outbox.job_id.in_(mine)).values(sent_at=past))

    def hurry(self, build_id: str) -> None:
        """Let a build's rings that have not gone out yet wait for nothing any more."""
        with self.farm.database.transaction() as session:
            mine = select(Job.id).where(Job.build_id == build_id)
            waiting = Outbox.job_id.in_(mine) & Outbox.sent_at.is_(None)
            session.execute(update(Outbox).where(waiting).values(not_before=now()))

    def silence(self, node_id: str, seconds: float) -> None:
        """Let a node have been heard last a while ago."""
        with self.farm.database.transaction() as session:
            past = now() - timedelta(seconds=seconds)
            session.execute(update(Node).where(Node.id == node_id).values(last_seen_at=past))

    def verified(self, digest: str) -> VerifiedArtifact:
        """Fetch an artifact as a deployer would, and verify it as one would."""
        with self.farm.database.transaction() as session:
            row = artifacts.get(session, self.tenant_id, digest)
            bundles = [
                found.bundle for found in artifacts.attestations(session, self.tenant_id, digest)
            ]
            keys = [
                TrustKey.model_validate(key, from_attributes=True)
                for key in signing.trust_keys(session)
            ]
        assert row.state is ArtifactState.PUBLISHED
        return verify_artifact(row.manifest, digest, bundles, keys)


def add_model(
    farm: Farm, tenant_id: str, data: bytes = b"", interface: dict[str, Any] = INTERFACE
) -> str:
    """Put a model in the farm, one that is like no other unless given; return its digest."""
    data = data or b"a model " + secrets.token_bytes(8)
    file = {"digest": digest_of(data), "name": "model.onnx", "size": len(data)}
    digest = digest_of(canonical_json({"files": [file]}))
    farm.objects.put_bytes(digest_of(data), data, "application/octet-stream")
    with farm.database.transaction() as session:
        blobs.record(session, tenant_id, digest_of(data), len(data), "application/octet-stream")
        catalogue.add_model(
            session,
            tenant_id,
            digest=digest,
            name="doubler",
            size=len(data),
            files=[file],
            interface=interface,
        )
    return digest
