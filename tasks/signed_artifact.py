"""An artifact that is put together and signed: written at once with its files and statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginefarm.attestation import PREDICATE_TYPE
from enginefarm.manifest import MANIFEST_TYPE
from enginefarm.state import ArtifactState, JobState, Stage
from storage import artifacts, attempts, blobs, jobs
from storage.database import Session, now
from storage.models import Artifact, Attestation, Build, Job
from storage.signing import StatementSigner
from tasks.compose import Composed
from tasks.moves import move
from tasks.quarantine import held_back, measures_again


@dataclass(frozen=True)
class SignedArtifact:
    """An artifact of a build, and the bundle around the statement that vouches for it."""

    build: Build
    stages: Mapping[Stage, Job]
    composed: Composed
    bundle: bytes
    measured: Sequence[Job]
    """The jobs that have measured the engine."""

    @property
    def digest(self) -> str:
        """The artifact's digest."""
        return self.composed.manifest.digest

    @property
    def _state(self) -> ArtifactState:
        # Of a search only what it chooses goes out, and it chooses when all are over.
        kept = self.composed.held_back or self.build.search_id is not None
        return ArtifactState.QUARANTINED if kept else ArtifactState.PUBLISHED

    def keep(self, session: Session, signer: StatementSigner, job: Job) -> str:
        """Write its rows and end its publish job; return a word for the log."""
        self._write(session, signer)
        self._end(session, job)
        if measures_again(self.composed.report):
            for row in (*self.measured, job):
                jobs.withdraw(session, row)
        return f"artifact_{self._state}"

    def _write(self, session: Session, signer: StatementSigner) -> None:
        manifest, tenant = self.composed.manifest, self.build.tenant_id
        rendered = manifest.render()
        blobs.record(session, tenant, manifest.digest, len(rendered), MANIFEST_TYPE)
        for layer in self.composed.files:
            blobs.record(session, tenant, layer.digest, layer.size, layer.media_type)
        job = self.stages[Stage.PUBLISH]
        artifacts.add(
            session,
            Artifact(
                tenant_id=tenant,
                digest=manifest.digest,
                state=self._state,
                build_id=self.build.id,
                search_id=self.build.search_id,
                job_id=job.id,
                target=job.target,
                model_digest=self.build.model_digest,
                model_name=self.build.model_name,
                manifest=rendered,
                report=self.composed.report.model_dump(mode="json"),
                size=self.composed.size,
                created_at=now(),
            ),
            [row.digest for row in self.composed.files],
            Attestation(
                tenant_id=tenant,
                artifact_digest=manifest.digest,
                job_id=job.id,
                predicate_type=PREDICATE_TYPE,
                keyid=signer.keyid,
                bundle=self.bundle,
            ),
        )

    def _end(self, session: Session, job: Job) -> None:
        result = {"artifact": self.digest, "state": str(self._state)}
        if not self.composed.held_back:
            attempts.end(session, job, job.attempt, JobState.SUCCEEDED)
            move(session, job, JobState.SUCCEEDED, result=result)
            return
        failure = held_back(self.composed.report, self.digest).model_dump(mode="json")
        attempts.end(session, job, job.attempt, JobState.FAILED, failure=failure)
        move(session, job, JobState.FAILED, result=result, failure=failure)
