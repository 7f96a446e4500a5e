"""The sweep within a schedule: whatever it meets, what is needed stays."""

from __future__ import annotations

from enginefarm.state import JobState
from storage.staging import sender_of
from tasks.sweep import Sweeper
from tests.integration.tasks.life.kept_laws import named
from tests.integration.tasks.life.steps import Steps


def needed(steps: Steps) -> set[str]:
    """Return the bytes that are in the bucket and that somebody counts on, by the rows as they are.

    They are those of models, of artifacts, of results and logs that were not removed, and of the
    attempts that have not ended.
    """
    now = steps.now
    wanted = {digest for _, _, digest in named(now)}
    for work in steps.world.works:
        job = now.jobs[work.given.job_id]
        under_way = job.state in {JobState.RUNNING, JobState.UPLOADED}
        if under_way and job.attempt == work.given.attempt and work.message is not None:
            wanted |= {file.digest for file in work.message.outputs}
    return wanted & in_the_bucket(steps)


def in_the_bucket(steps: Steps) -> set[str]:
    """Return the bytes that are there; to ask for each by itself would be most of a schedule."""
    found: set[str] = set()
    while page := steps.world.farm.objects.listing(max(found, default="")):
        found |= {digest for digest, _ in page}
    return found


def sweep(steps: Steps) -> None:
    """Go once through the bucket; whatever the rows say before is needed is there afterwards."""
    steps.look()
    before, sent = needed(steps), being_sent(steps)
    sweeper = Sweeper(steps.world.brittle)
    try:
        while not sweeper.rounds:
            steps.met["swept"] += sweeper.turn()
    finally:
        left = before & in_the_bucket(steps)
        assert left == before, f"the sweep took what is needed: {sorted(before - left)}"
        assert being_sent(steps) == sent, "the sweep took what an attempt has sent"


def being_sent(steps: Steps) -> set[str]:
    """Return the places that are filled and will be looked at, by the rows as they are."""
    held = {
        (job.id, job.attempt)
        for job in steps.now.jobs.values()
        if job.state in {JobState.RUNNING, JobState.UPLOADED}
    }
    filled = [place for place, _ in steps.world.farm.objects.staging.listing()]
    return {place for place in filled if sender_of(place) in held}
