"""Sign what a comparison found, and keep it: in the row of its job, with what was signed beside it.

It makes no artifact: nothing of it is installed, and an artifact's manifest names one subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from enginefarm.comparison_proof import PREDICATE_TYPE
from enginefarm.comparison_report import ComparisonReport
from enginefarm.digest import canonical_json, digest_of
from enginefarm.spec import BuildSpec
from enginefarm.state import JobState
from storage import artifacts, attempts, jobs
from storage.database import Session
from storage.models import Attestation, Build, Job
from storage.signing import StatementSigner
from tasks.comparing.compose import report_of, statement_about
from tasks.comparing.subjects import Both
from tasks.moves import move


@dataclass(frozen=True)
class SignedComparison:
    """A comparison's report and the bundle around the statement of it."""

    report: ComparisonReport
    bundle: bytes
    measured: Job

    @property
    def digest(self) -> str:
        """Of the report as canonical JSON."""
        return digest_of(canonical_json(self.report.model_dump(mode="json")))

    def keep(self, session: Session, signer: StatementSigner, job: Job) -> str:
        """Write what was signed, and end the job; return a word for the log.

        A measurement that cannot be relied on is told once: who asks again gets another.
        """
        session.add(
            Attestation(
                tenant_id=job.tenant_id,
                artifact_digest=self.digest,
                job_id=job.id,
                predicate_type=PREDICATE_TYPE,
                keyid=signer.keyid,
                bundle=self.bundle,
            )
        )
        attempts.end(session, job, job.attempt, JobState.SUCCEEDED)
        told = {"comparison": self.digest, "report": self.report.model_dump(mode="json")}
        move(session, job, JobState.SUCCEEDED, result=told)
        if any(row.trust.tainted for row in self.report.rows):
            for each in (self.measured, job):
                jobs.withdraw(session, each)
        return "comparison_signed"


def both_of(session: Session, build: Build) -> Both | None:
    """Return the artifacts that a build compares, whatever became of them; None: it makes one."""
    compare = BuildSpec.model_validate(build.spec).compare
    if compare is None:
        return None
    first, second = (
        artifacts.get(session, build.tenant_id, digest)
        for digest in (compare.first, compare.second)
    )
    return first, second


def signed(signer: StatementSigner, build: Build, measured: Job, both: Both) -> SignedComparison:
    """Judge what was measured, and sign it."""
    report = report_of(build, measured, both)
    bundle = signer.sign(statement_about(report, signer.builder_id))
    return SignedComparison(report, bundle, measured)
