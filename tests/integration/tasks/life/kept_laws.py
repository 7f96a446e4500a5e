"""What must be true of what rules of retention have removed, and of what they have left."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.state import ArtifactState, JobState
from tests.integration.tasks.life.files import files_of
from tests.integration.tasks.life.seen import Law, Seen
from tests.integration.tasks.life.snapshot import LIVE, Snapshot


def _who_names_bytes_has_them(now: Snapshot, _seen: Seen) -> Iterator[str]:
    """See that a tenant has a right to all that its rows name and do not say to be removed."""
    for what, tenant_id, digest in named(now):
        if (tenant_id, digest) not in now.blobs:
            yield f"{what} names {digest}, to which {tenant_id} has no right any more"


def named(now: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Give what names bytes, its tenant, and their digest."""
    for (tenant_id, digest), files in now.models.items():
        yield from ((f"model {digest}", tenant_id, file) for file in files)
    for row in now.artifacts:
        yield from ((f"artifact {row.digest}", row.tenant_id, file) for file in files_of(row))
    for job in now.jobs.values():
        if job.state is JobState.SUCCEEDED and job.result_expired_at is None:
            for file in (job.result or {}).get("outputs", []):
                yield f"job {job.id}", job.tenant_id, file["digest"]
    for attempt in (row for rows in now.attempts.values() for row in rows):
        if attempt.log_digest is not None and attempt.log_expired_at is None:
            tenant_id = now.jobs[attempt.job_id].tenant_id
            yield f"the log of {attempt.job_id}", tenant_id, attempt.log_digest


def _what_was_removed_says_so(now: Snapshot, seen: Seen) -> Iterator[str]:
    for tenant_id, digest in seen.models - now.models.keys():
        if (tenant_id, "models", digest) not in now.expired:
            yield f"model {digest} of {tenant_id} is gone, and nothing says why"
    seen.models |= now.models.keys()
    for row in now.artifacts:
        gone = files_of(row, kept=False) if row.engine_expired_at is not None else ()
        for digest in gone:
            if (row.tenant_id, "blobs", digest) not in now.expired:
                yield f"artifact {row.digest} lost {digest}, and nothing says why"


def _the_cache_answers_with_what_is_kept(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for job in now.jobs.values():
        if job.result_expired_at is not None and job.withdrawn_at is None:
            yield f"the cache answers with the result of {job.id}, which was removed"


def _builds_under_way_have_what_they_need(now: Snapshot, _seen: Seen) -> Iterator[str]:
    going_on = {job.build_id for job in now.jobs.values() if job.state in LIVE}
    for job in now.jobs.values():
        build = now.builds[job.build_id]
        if job.build_id not in going_on:
            continue
        if (build.tenant_id, build.model_digest) not in now.models:
            yield f"build {build.id} goes on and its model is gone"
        if job.result_expired_at is not None:
            yield f"build {build.id} goes on and the result of its {job.stage} is gone"


def _what_is_out_stays_whole(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for row in now.artifacts:
        if row.state is not ArtifactState.PUBLISHED:
            continue
        if row.engine_expired_at is not None:
            yield f"artifact {row.digest} is published and its engine is gone"
        if (row.tenant_id, row.model_digest) not in now.models:
            yield f"artifact {row.digest} is published and its model is gone"


KEPT_LAWS: tuple[Law, ...] = (
    _who_names_bytes_has_them,
    _what_was_removed_says_so,
    _the_cache_answers_with_what_is_kept,
    _builds_under_way_have_what_they_need,
    _what_is_out_stays_whole,
)
