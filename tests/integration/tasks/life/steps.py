"""The steps of nodes: they claim, beat, upload, end, lie, and start again.

Each step checks the answer, which is foretold from the rows as they were and from who was given
what.
"""

from __future__ import annotations

from typing import cast

import pytest
from sqlalchemy import select

from enginefarm.errors import Failure, LeaseLost
from enginefarm.state import Blame, JobState, Stage
from storage.database import now
from storage.models import Job
from storage.objects import S3Objects
from tasks.messages import BUCKET_AWAY, FinishRequest, Ring
from tests.contract.stores import overwrite
from tests.integration.tasks.life.schedule import Mishap, Schedule
from tests.integration.tasks.life.world import LifeNode, Work

REFUSED = 400
DECLINED = {"incapable", "busy", "failed here before"}
FAULTS = {
    "person": ("unsupported_operator", Blame.PERSON),
    "node": ("device_lost", Blame.NODE),
    "memory": ("out_of_memory", Blame.NODE),
    "farm": ("blob_unreachable", Blame.FARM),
    "bucket": (BUCKET_AWAY, Blame.FARM),
}
ANSWERS = {
    JobState.SUCCEEDED: {JobState.UPLOADED},
    JobState.FAILED: {JobState.QUEUED, JobState.FAILED},
    JobState.QUEUED: {JobState.QUEUED},
    JobState.CANCELLED: {JobState.QUEUED},
}
"""What the end of an attempt may be answered, unless a cancel was asked for meanwhile."""


class Steps(Schedule):
    """A schedule with nodes in it."""

    def claim(self, node: LifeNode, ring: Ring, mishap: Mishap = None) -> Work | None:
        at = (ring.job_id, ring.attempt)
        before = self.now.jobs.get(ring.job_id)
        due = (
            before is not None
            and before.state is JobState.QUEUED
            and before.attempt == ring.attempt
        )
        reply = None
        with self.within(mishap):
            reply = node.hear(ring)
        if reply is not None and reply.assignment is not None:
            assert due, f"{at} was given away, but the job is {before}"
            assert at not in self.seen.given, f"{at} was given away twice"
            given = reply.assignment
            assert (given.job_id, given.attempt) == at
            self.met[f"{given.stage} given"] += 1
            self.seen.given[at] = given.lease_token
            self.world.works.append(Work(given, node))
            self.look()
            return self.world.works[-1]
        self.met["claim refused"] += reply is not None
        if due and self.world.trap.commits:
            self._not_heard(at, reply.declined if reply is not None else None)
        return None

    def _not_heard(self, at: tuple[str, int], declined: str | None) -> None:
        """Look at a job whose node was refused it, or was not told that it has it."""
        if declined is None:
            self.seen.given.setdefault(at, None)
        self.look()
        job = self.now.jobs[at[0]]
        if job.state is JobState.QUEUED:
            assert declined is None or declined in DECLINED
            assert any(ring.sent_at is None for ring in self.now.rings[at]), "not rung again"
            if declined is None:
                del self.seen.given[at]

    def holds(self, work: Work) -> bool:
        """Tell whether a node still speaks for its attempt."""
        job = self.now.jobs[work.given.job_id]
        later = any(
            job_id == job.id and number > work.given.attempt for job_id, number in self.seen.given
        )
        mine = job.state is JobState.RUNNING and job.attempt == work.given.attempt
        assert not (mine and later), "an earlier attempt is held again"
        return mine

    def beat(self, work: Work, mishap: Mishap) -> None:
        if not self.holds(work):
            with pytest.raises(LeaseLost):
                work.node.beat(work.given)
            return
        with self.within(mishap):
            reply = work.node.beat(work.given)
            wanted = self.now.jobs[work.given.job_id].cancel_requested_at is not None
            assert reply.cancel is wanted

    def upload(self, work: Work, how: str) -> None:
        """Upload what a job made: whole, not at all, wrongly, or announced to be longer.

        What is ``unasked`` is named at the end, though no place was asked for it.
        """
        node = work.node
        made = node.made(work.given)
        if not self.holds(work):
            with pytest.raises(LeaseLost):
                node.places(work.given, *(file for file, _ in made))
            return
        log = node.log(work.given) if how in {"whole", "longer"} else []
        if how in {"whole", "longer"}:
            node.upload(work.given, made + log)
        elif how == "wrong":
            self._upload_wrongly(work)
        elif how == "none" and made:
            node.places(work.given, *(file for file, _ in made))
        work.asked = work.asked or how != "unasked" or not made
        shared = node.engine is not None and work.given.stage is Stage.COMPILE
        if how == "whole" and not shared:  # an engine that others make may be lost
            self.seen.whole.add(work.at)
        elif how in {"longer", "wrong"}:
            self.seen.whole.discard(work.at)
        self.met[f"{work.given.stage} uploaded {how}"] += 1
        outputs = [file for file, _ in made]
        if how == "longer":
            outputs = [row.model_copy(update={"size": row.size + 1}) for row in outputs]
        work.message = node.success(work.given, outputs, *(file for file, _ in log))

    def _upload_wrongly(self, work: Work) -> None:
        """Be refused by the bucket, then put other bytes there all the same."""
        for file, data in work.node.made(work.given):
            (slot,) = work.node.places(work.given, file)
            bad = data[:-1] + b"!"
            answer = work.node.put(slot, bad)
            assert answer is None or answer >= REFUSED, "the bucket took other bytes"
            if data != work.node.engine:  # what others have made, too, is not this node's to spoil
                overwrite(cast("S3Objects", self.world.farm.objects), file.digest, bad)

    def finish(self, work: Work, how: str, mishap: Mishap = None) -> None:
        message = self._message(work, how)
        job = self.now.jobs[work.given.job_id]
        if not work.ended and not self.holds(work):
            self.met["late end refused"] += 1
            with pytest.raises(LeaseLost):
                work.node.tell(work.given, message)
            return
        answer = None
        with self.within(mishap):
            answer = work.node.tell(work.given, message)
        again, was = work.ended, work.answer
        work.ended = again or answer is not None or self.world.trap.commits > 0
        work.answer = was or answer
        if answer is None:
            return
        self.met["end repeated" if again else f"end {how}"] += 1
        if again:
            assert was in {None, answer}, f"answered {was} before, now {answer}"
            return
        strange = message.state is JobState.SUCCEEDED and not work.asked
        told = JobState.FAILED if strange else message.state
        may = ANSWERS[told]
        if job.cancel_requested_at is not None and told is not JobState.SUCCEEDED:
            may = {JobState.CANCELLED}
        assert answer in may, f"{message.state} was answered {answer}"

    def _message(self, work: Work, how: str) -> FinishRequest:
        given = work.given
        if how == "success":
            if work.message is None:
                self.upload(work, "whole")
            made = [file for file, _ in work.node.made(given)]
            return work.message or work.node.success(given, made)
        state = {"back": JobState.QUEUED, "cancelled": JobState.CANCELLED}.get(how, JobState.FAILED)
        code, blame = FAULTS.get(how, ("", Blame.NODE))
        failure = Failure(code=code, blame=blame, message="It did not work.") if code else None
        return FinishRequest(
            attempt=given.attempt, lease_token=given.lease_token, state=state, failure=failure
        )

    def speak_for_another(self, work: Work, other: LifeNode, how: str) -> None:
        """Say something of an attempt that is not one's own; nobody may be heard so."""
        changes: dict[str, dict[str, object]] = {
            "token": {"lease_token": "guessed"},
            "later": {"attempt": work.given.attempt + 1},
            "earlier": {"attempt": work.given.attempt - 1},
            "node": {},
        }
        if how == "node" and other.node_id == work.node.node_id:
            return
        forged = work.given.model_copy(update=changes[how])
        speaker = other if how == "node" else work.node
        with pytest.raises(LeaseLost):
            speaker.beat(forged)
        with pytest.raises(LeaseLost):
            speaker.end(forged, JobState.FAILED)

    def enrol_again(self, node: LifeNode, mishap: Mishap) -> None:
        with self.within(mishap):
            node.__post_init__()
            node.dead = node.draining = False
            node.heard_at = self.world.clock
        if node.dead or not self.world.trap.commits:
            return
        with self.world.farm.database.transaction() as session:
            runs = (Job.node_id == node.node_id, Job.state == JobState.RUNNING)
            query = select(Job.id).where(*runs, Job.lease_until > now())
            assert not session.scalars(query).all(), "a node that started again still has a job"

    def beat_node(self, node: LifeNode, *, draining: bool, forgets: bool) -> None:
        node.draining, node.heard_at = draining, self.world.clock
        held = [] if forgets else [work.given for work in self.world.of(node)]
        node.alive(draining=draining, running=held)
