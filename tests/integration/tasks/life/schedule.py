"""A schedule, and the steps of people in it: they submit, cancel, hurry; and things get lost.

Each step does one thing to the farm and checks the answer, which is foretold from the rows as they
were and from what was seen before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import cast

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from enginefarm.errors import Conflict, InvalidRequest, NotFound, NotServed
from enginefarm.sku import EVERY
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, JobState, Stage
from storage.models import Job
from tasks.bump import bump
from tasks.cancel import cancel
from tests.integration.tasks.life.laws import broken
from tests.integration.tasks.life.seen import Seen
from tests.integration.tasks.life.snapshot import Snapshot, take
from tests.integration.tasks.life.world import World
from tests.integration.tasks.scene import Scene

Mishap = tuple[int, str] | None


class Schedule:
    """One schedule: a world, and what was seen of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen = Seen()
        self.met: Counter[str] = Counter()
        self.now: Snapshot
        self.look()

    def look(self) -> None:
        """Read the rows, and hold every law against them."""
        self.now = take(self.world.farm.database, self.seen.heard)
        complaints = broken(self.world.farm, self.now, self.seen)
        assert not complaints, "\n".join(complaints)

    def within(self, mishap: Mishap) -> AbstractContextManager[None, bool]:
        """Take a step, which may end in the middle: what follows is done all the same."""
        return cast("AbstractContextManager[None, bool]", self._within(mishap))

    @contextmanager
    def _within(self, mishap: Mishap) -> Iterator[None]:
        trap = self.world.trap
        if mishap is None:
            trap.commits = 0
            yield
            return
        with trap.ending(*mishap):
            yield
        if trap.sprung:
            self.met[f"{mishap[1]} {trap.sprung}"] += 1

    def submit(self, owner: Scene, spec: BuildSpec, key: str | None, mishap: Mishap) -> str:
        """Ask for a build; return its id, or nothing if we are not told of one."""
        known = self.seen.keyed.get((owner.tenant_id, key)) if key is not None else None
        if known is not None and known[0] != spec:
            with pytest.raises(Conflict):
                owner.accept(spec, key)
            return ""
        build_id = None
        try:
            with self.within(mishap):
                build_id = owner.accept(spec, key).build.id
        except NotFound as error:
            self._bring_again(owner, spec.model, error)
            return ""
        except NotServed:
            assert known is None or known[1] is None
            assert spec.wait_for_node == 0
            assert not all(self.world.serving(str(target)) for target in spec.targets)
            return ""
        except InvalidRequest as error:
            self._no_such_sku(spec, error)
            return ""
        if build_id is not None:
            self.met["repeat answered"] += known is not None
            assert known is None or known[1] in {None, build_id}, "a repeat made another build"
            self._accepted(owner.tenant_id, build_id)
        elif self.world.trap.commits == 0:
            return ""
        elif known is None:
            self.seen.unanswered += 1
        if key is not None:
            was = known[1] if known is not None else None
            self.seen.keyed[owner.tenant_id, key] = (spec, build_id or was)
        return build_id or ""

    def _bring_again(self, owner: Scene, model: str, error: NotFound) -> None:
        """Upload a model again of which the farm says that a rule has removed it."""
        self.look()
        assert error.code == "model_expired"
        assert (owner.tenant_id, model) not in self.now.models
        self.met["model brought again"] += 1
        self.world.bring(owner, self.world.brought[model])

    def _no_such_sku(self, spec: BuildSpec, error: InvalidRequest) -> None:
        """See that a build was refused for want of a node with a SKU that it names."""
        assert error.code == "unknown_sku"
        there = self.world.measuring()
        assert not there if spec.measure_on == [EVERY] else set(spec.measure_on) - there
        self.met["SKU refused"] += 1

    def _accepted(self, tenant_id: str, build_id: str) -> None:
        if build_id in self.now.builds:
            assert build_id in self.seen.accepted
        self.seen.accepted[build_id] = tenant_id

    def cancel(self, build_id: str, mishap: Mishap) -> None:
        build = self.now.builds[build_id]
        with self.within(mishap):
            cancel(self.world.brittle, build.tenant_id, build_id)
        if self.world.trap.commits and not BuildState(build.state).terminal:
            self.look()
            assert self.now.builds[build_id].state is BuildState.CANCELLED

    def bump(self, build_id: str) -> None:
        build = self.now.builds[build_id]
        try:
            with self.world.brittle.database.transaction() as session:
                bump(session, build.tenant_id, build_id)
        except Conflict:
            assert BuildState(build.state).terminal
        else:
            assert not BuildState(build.state).terminal

    def do_work_twice(self, number: int) -> None:
        """Queue a job beside the one that it joined; the database itself must refuse."""
        doing = (JobState.QUEUED, JobState.RUNNING, JobState.UPLOADED)
        joined = [
            job
            for leader_id, rows in self.now.followers.items()
            for job in rows
            if self.now.jobs[leader_id].state in doing
        ]
        if joined:
            mine = Job.id == joined[number % len(joined)].id
            aside = update(Job).where(mine).values(joined_to=None, state=JobState.QUEUED)
            with (
                pytest.raises(IntegrityError),
                self.world.farm.database.transaction() as session,
            ):
                session.execute(aside)

    def lose_an_engine(self, number: int) -> None:
        """Let the bucket lose an engine before it is published."""
        kept = b"".join(row.manifest for row in self.now.artifacts).decode()
        found = [
            output["digest"]
            for job in self.now.in_state(JobState.SUCCEEDED, Stage.COMPILE)
            for output in (job.result or {})["outputs"]
        ]
        loose = [digest for digest in found if digest not in kept]
        if loose:
            self.world.farm.objects.remove(loose[number % len(loose)])
