"""Offer the timings of a build to the builds that follow: merge with the newest until it is taken.

Whatever goes wrong here, the engine is as good as it was: it is only told.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enginefarm.compile_options import TimingReuse
from enginefarm.errors import FarmError, JobFailed
from enginefarm.state import Stage
from tasks.messages import (
    TIMING_CACHE_TYPE,
    Assignment,
    InputFile,
    OutputFile,
    TimingMerge,
    TimingOffer,
    TimingRefusal,
    TimingReply,
)
from workers import sandbox, timing, transfer
from workers.childjob import (
    JOB_FILE,
    RESULT_FILE,
    ChildInput,
    ChildJob,
    ChildOutput,
    ChildResult,
    write_document,
)
from workers.farm_api import WorkerApi
from workers.gpu.need import DeviceNeed
from workers.joblog import JobLog
from workers.settings import child_environment
from workers.storing import store
from workers.timing import ChildTiming

TRIES = 50
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0


class Road(Protocol):
    """How a node reaches the farm, and the runtime that merges."""

    def send(self, path: Path) -> OutputFile:
        """Send a cache to a place of the attempt."""

    def merge(self, file: OutputFile, base: int, left: ChildTiming) -> TimingReply:
        """Offer what was sent, as resting on a generation."""

    def refuse(self, digest: str, why: str) -> TimingReply:
        """Say that the runtime does not take a snapshot."""

    def join(self, mine: Path, newest: TimingOffer) -> ChildTiming:
        """Fetch the newest snapshot and merge it into ``mine``."""


def offer(road: Road, held: TimingOffer, left: ChildTiming, *, began_with_it: bool) -> str:
    """Offer until the farm takes it or does not want it; return what became of it, in words.

    ``began_with_it``: the build had the snapshot that it was given, and so its cache has it whole.
    """
    state, whole = held, held.newest.digest if held.newest and began_with_it else None
    if left.refused is not None and held.newest is not None:
        state, whole = road.refuse(held.newest.digest, left.refused).now, None
    path = left.path
    if path is None or held.reuse is TimingReuse.REQUIRED:
        return "nothing was timed"
    if left.kept_back is not None:
        return f"not offered: {left.kept_back}"
    for number in range(TRIES):
        newest = state.newest
        if newest is not None and newest.digest != whole:
            joined = road.join(path, state)
            if joined.path is None:
                state = road.refuse(newest.digest, joined.refused or "It cannot be merged.").now
                continue
            left = joined.model_copy(update={"hits": left.hits})
            path, whole = joined.path, newest.digest
        reply = road.merge(road.send(path), state.generation, left)
        if reply.over:
            return reply.why or f"kept, {left.entries} entries"
        state = reply.now
        _pause(number)
    return "given up: others were always first"


def _pause(number: int) -> None:
    longest = min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S)
    time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter is no secret


def begin(job: Assignment, folder: Path, log: JobLog, stop: transfer.Stop) -> list[ChildInput]:
    """Fetch the snapshot that a job was given; without it the build times everything itself.

    Raises:
        JobFailed: it does not come, and the build may time nothing.
        TransferStopped: ``stop`` gave a reason.
    """
    if job.timing_cache is None:
        return []
    if job.timing_cache.begin_fresh:
        log.say("timing cache: a build with the newest has crashed; this one begins without")
        return []
    try:
        snapshot = fetch_snapshot(job.timing_cache, folder, stop)
    except JobFailed as error:
        log.say(f"timing cache: {error.message} {error.why}")
        if job.timing_cache.reuse is TimingReuse.REQUIRED:
            raise
        return []
    return [] if snapshot is None else [snapshot]


def conclude(road: NodeRoad, inputs: list[ChildInput], left: ChildTiming | None) -> None:
    """Offer what a build has left, if it left something; the job's log tells what came of it."""
    held = road.job.timing_cache
    if held is None or left is None:
        return
    given = any(item.role == timing.ROLE for item in inputs)
    served = "" if left.hits is None else f", {left.hits} entries served the build"
    try:
        said = offer(road, held, left, began_with_it=given and left.refused is None)
    except (FarmError, OSError, ValueError) as error:
        said = f"not offered: {error}"
    except transfer.TransferStopped:
        said = "not offered: the job was stopped"
    refused = f"; the snapshot was refused: {left.refused}" if left.refused else ""
    road.log.say(f"timing cache: {said}{served}{refused}")


@dataclass
class NodeRoad:
    """The road of a real node: its API, its bucket, and a child that merges."""

    api: WorkerApi
    job: Assignment
    folder: Path
    limits: sandbox.Limits
    need: Callable[[], DeviceNeed]
    log: JobLog
    stop: Callable[[], str | None]
    patience: Callable[[], float]
    joins: int = 0

    def send(self, path: Path) -> OutputFile:
        """Send a cache to a place of the attempt."""
        output = ChildOutput(
            role=timing.ROLE, name=timing.FILE_NAME, path=path, media_type=TIMING_CACHE_TYPE
        )
        return store(self.api, self.job, [output], self.stop, self.patience)[0]

    def merge(self, file: OutputFile, base: int, left: ChildTiming) -> TimingReply:
        """Offer what was sent, as resting on a generation."""
        message = TimingMerge(
            attempt=self.job.attempt,
            lease_token=self.job.lease_token,
            base=base,
            digest=file.digest,
            size=file.size,
            entries=left.entries,
            hits=left.hits,
        )
        return self.api.merge_timings(self.job.job_id, message, patience_s=self.patience())

    def refuse(self, digest: str, why: str) -> TimingReply:
        """Say that the runtime does not take a snapshot."""
        message = TimingRefusal(
            attempt=self.job.attempt,
            lease_token=self.job.lease_token,
            digest=digest,
            why=why[:500],
        )
        return self.api.refuse_timings(self.job.job_id, message, patience_s=self.patience())

    def join(self, mine: Path, newest: TimingOffer) -> ChildTiming:
        """Fetch the newest snapshot and merge it into ``mine``, in a child."""
        self.joins += 1
        scratch = self.folder / f"join-{self.joins}"
        (scratch / "out").mkdir(parents=True)
        try:
            theirs = fetch_snapshot(newest, scratch, self.stop, role=timing.OTHER_ROLE)
        except JobFailed as error:
            if not transfer.is_spoilt(error):
                raise
            # Nobody can merge with it any more: it must not be in everybody's way for ever.
            return ChildTiming(refused=f"{error.message} {error.why}")
        inputs = [ChildInput(role=timing.ROLE, name=timing.FILE_NAME, path=mine)]
        job = ChildJob(
            stage=Stage.COMPILE,
            target=self.job.target,
            recipe={"backend_version": self.job.recipe.get("backend_version")},
            inputs=[*inputs, *([theirs] if theirs else [])],
            out=scratch / "out",
            merges=True,
            device=self.need(),
        )
        write_document(scratch / JOB_FILE, job)
        outcome = sandbox.run(
            sandbox.child_command(scratch),
            cwd=scratch,
            environment=child_environment(scratch),
            limits=self.limits,
            log=self.log,
            on_progress=lambda _said: None,
            stop=self.stop,
        )
        if outcome.ending is sandbox.Ending.KILLED:
            return ChildTiming(refused=f"The runtime crashes on it ({outcome.signal}).")
        result = ChildResult.model_validate_json((scratch / RESULT_FILE).read_bytes())
        if result.timing is None:
            raise FarmError("The timing caches could not be merged.", code="internal")
        return result.timing


def fetch_snapshot(
    offered: TimingOffer, folder: Path, stop: transfer.Stop, role: str = timing.ROLE
) -> ChildInput | None:
    """Fetch the snapshot that an offer names, if it names one.

    Raises:
        JobFailed: it does not come, or not as it should be.
        TransferStopped: ``stop`` gave a reason.
    """
    newest = offered.newest
    if newest is None:
        return None
    place = folder / role
    place.mkdir(exist_ok=True)
    item = InputFile(
        role=role,
        name=timing.FILE_NAME,
        digest=newest.digest,
        size=newest.size,
        url=newest.url,
    )
    with transfer.make_client(stop) as client:
        path = transfer.download(client, item, place, stop)
    return ChildInput(role=role, name=timing.FILE_NAME, path=path)
