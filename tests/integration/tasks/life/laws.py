"""What must be true after every step, whatever happened; each law says what breaks it.

A law looks at the rows as they are and at what this test has seen itself. It uses none of the
rules it is about, but the table of legal moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from enginefarm.state import ArtifactState, Blame, BuildState, JobState, Stage
from tasks.farm import Farm
from tasks.lifecycle import LEGAL_MOVES
from tasks.messages import BUCKET_AWAY
from tests.integration.tasks.life.files import unreadable
from tests.integration.tasks.life.kept_laws import KEPT_LAWS
from tests.integration.tasks.life.seen import Law, Seen
from tests.integration.tasks.life.snapshot import LIVE, AnyRow, Snapshot

UNSUCCESSFUL = (JobState.FAILED, JobState.EXPIRED)


def broken(farm: Farm, now: Snapshot, seen: Seen) -> list[str]:
    """Return every way in which the rows break a law, and remember what was seen."""
    said = [complaint for law in LAWS for complaint in law(now, seen)]
    return said + list(_bytes_are_there(farm, now, seen))


def _accepted_builds_are_kept(now: Snapshot, seen: Seen) -> Iterator[str]:
    for build_id, tenant in seen.accepted.items():
        if build_id not in now.builds or now.builds[build_id].tenant_id != tenant:
            yield f"accepted build {build_id} is lost"
    for build_id in sorted(now.builds.keys() - seen.accepted.keys()):
        if seen.unanswered == 0:
            yield f"nobody asked for build {build_id}"
        seen.unanswered -= 1
        seen.accepted[build_id] = now.builds[build_id].tenant_id
    keys = Counter((row.tenant_id, row.idempotency_key) for row in now.builds.values())
    for (_, key), count in keys.items():
        if key is not None and count > 1:
            yield f"{count} builds under the idempotency key {key}"


def _events_tell_legal_moves(now: Snapshot, seen: Seen) -> Iterator[str]:
    for build_id, build in now.builds.items():
        for event in now.events.get(build_id, ()):
            number = seen.heard.get(build_id, 0) + 1
            if event.seq != number:
                yield f"build {build_id}: event {event.seq} follows {number - 1}"
            seen.heard[build_id] = event.seq
            if event.kind == "build":
                seen.told_of[build_id] = BuildState(event.data["state"])
                continue
            before, after = _told(seen, event.job_id), JobState(event.data["state"])
            again = before is after is JobState.WAITING  # why it waits
            if not again and after not in LEGAL_MOVES[before]:
                yield f"job {event.job_id} went from {before} to {after}"
            seen.told[event.job_id] = after
        if seen.heard.get(build_id) != build.event_seq:
            yield f"build {build_id} has lost events"
        if seen.told_of.get(build_id) is not build.state:
            yield f"build {build_id} is {build.state}; events say {seen.told_of.get(build_id)}"
    for job in now.jobs.values():
        if _told(seen, job.id) is not job.state:
            yield f"job {job.id} is {job.state}; its events say {_told(seen, job.id)}"


def _told(seen: Seen, job_id: str) -> JobState:
    return seen.told.get(job_id, JobState.WAITING)


def _ends_are_final(now: Snapshot, seen: Seen) -> Iterator[str]:
    ends: list[tuple[str, JobState | BuildState, bool]] = [
        (row.id, row.state, row.finished_at is not None)
        for row in (*now.jobs.values(), *now.builds.values())
    ]
    for row_id, state, dated in ends:
        if row_id in seen.ended and seen.ended[row_id] is not state:
            yield f"{row_id} was {seen.ended[row_id]} and is {state}"
        if state.terminal:
            seen.ended[row_id] = state
        if state.terminal is not dated:
            yield f"{row_id} is {state}, finished_at is {'' if dated else 'not '}set"
    for job in now.jobs.values():
        if (job.failure is not None) is not (job.state in UNSUCCESSFUL):
            yield f"job {job.id} is {job.state} with the failure {job.failure}"
        if (job.failure or {}).get("code") == "internal":
            yield f"job {job.id} failed without a reason"


def _work_is_done_once(now: Snapshot, _seen: Seen) -> Iterator[str]:
    doing: Counter[tuple[str, str]] = Counter()
    done: Counter[tuple[str, str]] = Counter()
    for job in now.jobs.values():
        if job.key is not None and job.joined_to is None and job.state in LIVE:
            doing[job.tenant_id, job.key] += 1
        fresh = job.cached_from is None and job.withdrawn_at is None
        if job.state is JobState.SUCCEEDED and fresh:
            done[job.tenant_id, job.key] += 1
            if job.result is None:
                yield f"job {job.id} succeeded without a result"
    yield from (f"{count} live jobs of key {key}" for key, count in doing.items() if count > 1)
    yield from (f"key {key} was done {count} times" for key, count in done.items() if count > 1)


def _joined_jobs_have_a_live_leader(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for job in now.in_state(JobState.WAITING):
        if job.key is not None and job.joined_to is None and job.stage != Stage.PUBLISH:
            yield f"job {job.id} waits for nobody"
    for leader_id, rows in now.followers.items():
        leader = now.jobs.get(leader_id)
        for job in rows:
            if leader is None:
                yield f"job {job.id} waits for {leader_id}, which is gone"
            elif leader.state not in LIVE:
                yield f"job {job.id} still waits for {leader.id}, which is {leader.state}"
            elif (leader.tenant_id, leader.key) != (job.tenant_id, job.key):
                yield f"job {job.id} waits for the other work of {leader.id}"
            elif leader.joined_to is not None:
                yield f"job {job.id} waits for {leader.id}, which waits itself"


def _results_come_from_the_same_work(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for job in now.jobs.values():
        source = now.jobs.get(job.cached_from) if job.cached_from is not None else None
        if job.cached_from is None:
            continue
        if source is None or source.state is not JobState.SUCCEEDED:
            yield f"job {job.id} has its result from {job.cached_from}, which has none"
        elif (source.tenant_id, source.key) != (job.tenant_id, job.key):
            yield f"job {job.id} has the result of other work, {source.id}"


def _attempts_follow_one_another(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for job in now.jobs.values():
        tried = now.attempts.get(job.id, [])
        numbers = [row.number for row in tried]
        begun = job.attempt - (job.state is JobState.QUEUED)
        if job.state in {JobState.CANCELLED, JobState.EXPIRED} and len(tried) == begun - 1:
            begun -= 1  # it was queued again
        if numbers != list(range(1, begun + 1)):
            yield f"job {job.id}, {job.state}, attempt {job.attempt}, has the attempts {numbers}"
        unfinished = [row.number for row in tried if row.finished_at is None]
        last = tried[-1].state if tried else None
        if job.state is JobState.SUCCEEDED and job.cached_from is None and last is not job.state:
            yield f"job {job.id} succeeded; its last attempt is {last}"
        runs = job.state is JobState.RUNNING
        if unfinished != ([job.attempt] if runs else []):
            yield f"job {job.id} is {job.state}; unfinished are its attempts {unfinished}"


def _running_jobs_have_a_lease(now: Snapshot, seen: Seen) -> Iterator[str]:
    for job in now.in_state(JobState.RUNNING):
        if job.lease_until is None:
            yield f"job {job.id} runs without a lease"
        if job.stage == Stage.PUBLISH:
            continue
        if job.node_id is None or (job.id, job.attempt) not in seen.given:
            yield f"job {job.id} runs, but was not given to a node"
        if now.attempts[job.id][-1].lease_sha256 != job.lease_sha256:
            yield f"job {job.id}: its lease is not its attempt's"


def _failures_decide(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for job in now.jobs.values():
        tried = now.attempts.get(job.id, [])
        failed = [row for row in tried if row.state is JobState.FAILED]
        blames = [(row.failure or {}).get("blame") for row in failed]
        counted = [row for row in failed if (row.failure or {}).get("code") != BUCKET_AWAY]
        if Blame.PERSON in blames and job.state in LIVE:
            yield f"job {job.id} goes on after a failure of the person's"
        if job.stage == Stage.PUBLISH or job.state is JobState.CANCELLED:
            continue
        if job.failures != len(counted) and job.cancel_requested_at is None:
            yield f"job {job.id} has {len(counted)} failed attempts and counts {job.failures}"


def _good_uploads_are_taken(now: Snapshot, seen: Seen) -> Iterator[str]:
    """See that what was found of one attempt's files is not held against another's."""
    for job_id, number in seen.whole:
        for row in now.attempts.get(job_id, ()):
            code = (row.failure or {}).get("code")
            if row.number == number and code in {"blob_missing", "blob_size", "blob_corrupt"}:
                yield f"attempt {number} of job {job_id} ended as {code}; its files are there"


def _queued_jobs_are_announced(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for job in now.in_state(JobState.QUEUED):
        if not now.rings.get((job.id, job.attempt)):
            yield f"job {job.id} is queued and nobody will be told"


def _builds_follow_their_jobs(now: Snapshot, _seen: Seen) -> Iterator[str]:
    for build in now.builds.values():
        jobs = now.jobs_of.get(build.id, [])
        if build.state is BuildState.CANCELLED or build.cancelled_at is not None:
            yield from _cancelled_stops(now, build, jobs)
            continue
        good = {target: _is_good(jobs, target) for target in {job.target for job in jobs}}
        live = {job.target for job in jobs if job.state in LIVE}
        if live or not jobs:
            wanted = {BuildState.PENDING, BuildState.RUNNING}
        elif all(good.values()):
            wanted = {BuildState.SUCCEEDED}
        else:
            wanted = {BuildState.PARTIAL if any(good.values()) else BuildState.FAILED}
        if build.state not in wanted:
            told = [(job.target, str(job.stage), str(job.state)) for job in jobs]
            yield f"build {build.id} is {build.state} with {told}"


def _is_good(jobs: list[AnyRow], target: str) -> bool:
    """Tell whether all of a target went well; of the SKUs it is measured on one is enough."""
    mine = [job for job in jobs if job.target == target]
    skus = [job.state for job in mine if job.sku is not None]
    rest = [job.state for job in mine if job.sku is None]
    return set(rest) == {JobState.SUCCEEDED} and (not skus or JobState.SUCCEEDED in skus)


def _every_sku_is_waited_for(now: Snapshot, _seen: Seen) -> Iterator[str]:
    """See that nothing is published before each SKU was measured, or will not be."""
    for job in now.jobs.values():
        if job.stage != Stage.PUBLISH or job.key is None:
            continue
        mine = [row for row in now.jobs_of[job.build_id] if row.target == job.target and row.sku]
        live = [row.sku for row in mine if row.state in LIVE]
        if live or (mine and all(row.state is not JobState.SUCCEEDED for row in mine)):
            yield f"publish job {job.id} has begun; not measured yet: {live}"


def _cancelled_stops(now: Snapshot, build: AnyRow, jobs: list[AnyRow]) -> Iterator[str]:
    if build.state is not BuildState.CANCELLED or build.cancelled_at is None:
        yield f"build {build.id} was cancelled at {build.cancelled_at} and is {build.state}"
    for job in jobs:
        if job.state not in LIVE or now.wanted(job):
            continue
        stopping = job.cancel_requested_at is not None
        may_end = job.state in {JobState.RUNNING, JobState.UPLOADED} and stopping
        if not may_end:
            yield f"job {job.id} of the cancelled build {build.id} is {job.state}"


def _artifacts_are_published_once(now: Snapshot, _seen: Seen) -> Iterator[str]:
    of_job = Counter(row.job_id for row in now.artifacts)
    attested = Counter(now.attested)
    for row in now.artifacts:
        job = now.jobs.get(row.job_id)
        wanted = JobState.SUCCEEDED if row.state is ArtifactState.PUBLISHED else JobState.FAILED
        if job is None or job.state is not wanted:
            yield f"artifact {row.digest} is {row.state}, its job {job and job.state}"
        if of_job[row.job_id] > 1 or attested[row.digest] != 1:
            yield f"job {row.job_id} was published more than once, or not signed once"
    for job in now.in_state(JobState.SUCCEEDED, Stage.PUBLISH):
        if job.cached_from is None and of_job[job.id] != 1:
            yield f"publish job {job.id} succeeded with {of_job[job.id]} artifacts"


def _bytes_are_there(farm: Farm, now: Snapshot, seen: Seen) -> Iterator[str]:
    """Read each new artifact's files as a deployer would: they have the digest they go by."""
    for row in now.artifacts:
        if row.digest in seen.proven:
            continue
        seen.proven.add(row.digest)
        yield from unreadable(farm, row)


LAWS: tuple[Law, ...] = (
    _accepted_builds_are_kept,
    _events_tell_legal_moves,
    _ends_are_final,
    _work_is_done_once,
    _joined_jobs_have_a_live_leader,
    _results_come_from_the_same_work,
    _attempts_follow_one_another,
    _running_jobs_have_a_lease,
    _failures_decide,
    _good_uploads_are_taken,
    _queued_jobs_are_announced,
    _builds_follow_their_jobs,
    _every_sku_is_waited_for,
    _artifacts_are_published_once,
    *KEPT_LAWS,
)
