"""The memory that jobs took: kept when an attempt ends, asked for before the next one starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enginefarm.digest import canonical_json, digest_of
from enginefarm.spec import BuildSpec
from enginefarm.state import JobState, Stage
from enginefarm.target import Target
from storage import nodes, peaks
from storage.database import Session
from storage.models import Build, Job, Peak
from tasks.fleet import description_of
from tasks.memory import Known, Measured, known_of, lacking, likeness, rooms, sizes_of
from tasks.messages import MEMORY_LIMIT, OUT_OF_MEMORY, FinishRequest, MeasuredPeak
from tasks.plan import LiveNode, TargetPlan
from tasks.plugin_rules import having
from tasks.routing import NODE_STAGES
from tasks.twin import spec_of

OF_MEMORY = frozenset({MEMORY_LIMIT, OUT_OF_MEMORY})


def note_peak(session: Session, build: Build, job: Job, message: FinishRequest) -> None:
    """Keep what an attempt took, if it succeeded, or failed for want of memory.

    How much it had when something else ended it says nothing.
    """
    peak = message.peak_memory_bytes
    enough = message.state is JobState.SUCCEEDED
    failed = message.state is JobState.FAILED and message.failure is not None
    short = failed and message.failure is not None and message.failure.code in OF_MEMORY
    if not peak or not (enough or short):
        return
    spec, target = _spec_of(build, job), Target.parse(job.target)
    sizes = sizes_of(spec)
    peaks.keep(
        session,
        Peak(
            tenant_id=job.tenant_id,
            likeness=likeness(Stage(job.stage), spec, target, job.backend_version or ""),
            sizes_digest=digest_of(canonical_json(sizes)),
            sizes=sizes,
            peak_bytes=peak if enough else peak + 1,  # it needed more than it had
            enough=enough,
            build_id=build.id,
        ),
    )
    if short:
        job.peak_bytes = max(job.peak_bytes or 0, peak + 1)


Asked = tuple[Stage, str]
"""A stage of a target."""


def known_peaks(
    session: Session,
    tenant_id: str,
    spec: BuildSpec,
    stages: Iterable[tuple[Stage, Target, str]],
) -> dict[Asked, Known]:
    """Return what is known of the memory that stages (of targets, in versions) will take."""
    digests = {
        (stage, str(target)): likeness(stage, spec, target, version)
        for stage, target, version in stages
    }
    like: dict[str, list[Measured]] = {}
    for row in peaks.like(session, tenant_id, set(digests.values())) if digests else ():
        measured = Measured(row.peak_bytes, row.sizes, row.enough, row.build_id)
        like.setdefault(row.likeness, []).append(measured)
    sizes = sizes_of(spec)
    found = {asked: known_of(like.get(digest, []), sizes) for asked, digest in digests.items()}
    return {asked: known for asked, known in found.items() if known is not None}


def refuse_short(
    session: Session,
    tenant_id: str,
    spec: BuildSpec,
    plans: Sequence[TargetPlan],
    live: Sequence[LiveNode],
) -> None:
    """Refuse a target of which no live node has the memory, unless the build would wait for one.

    What succeeded at these very sizes may be in the cache: that is judged when it would start.

    Raises:
        NotServed: code ``memory_not_served``, with the number.
    """
    if spec.wait_for_node > 0:
        return
    stages = [
        (stage, row.target, row.version)
        for row in plans
        if row.version is not None
        for stage in row.stages
        if stage in NODE_STAGES
    ]
    known = known_peaks(session, tenant_id, spec, stages)
    for stage, target, version in stages:
        peak = known.get((stage, str(target)))
        if peak is not None and not peak.enough:
            there = having(live, stage, target, spec.options.plugins)
            require_room(peak, stage, target, version, there)


def require_room(
    known: Known, stage: Stage, target: Target, version: str, live: Sequence[LiveNode]
) -> None:
    """Refuse what no live node has the memory for.

    Raises:
        NotServed: code ``memory_not_served``, with the number.
    """
    there = rooms([node.description for node in live], stage, target, version)
    if there and max(there) < known.peak_bytes:
        raise lacking(stage, target, known, there)


def measured_for(session: Session, build: Build, job: Job) -> list[MeasuredPeak]:
    """Return what is known of the stages that come after a check, for its findings."""
    if job.stage != Stage.CHECK:
        return []
    spec, target = _spec_of(build, job), Target.parse(job.target)
    version = job.backend_version or ""
    stages = [(stage, target, version) for stage in (Stage.COMPILE, Stage.BENCHMARK)]
    found = known_peaks(session, job.tenant_id, spec, stages)
    return [
        MeasuredPeak(
            stage=stage,
            peak_bytes=known.peak_bytes,
            enough=known.enough,
            build_id=known.build_id,
        )
        for (stage, _), known in found.items()
    ]


def _spec_of(build: Build, job: Job) -> BuildSpec:
    """Return what was asked for, or what a build of the twin alone would ask for."""
    return spec_of(BuildSpec.model_validate(build.spec), job.twin)


def rooms_now(session: Session, stage: Stage, job: Job) -> list[int]:
    """Return the memory that each live node which can do a stage of a job's target gives it."""
    described = [description_of(row) for row in nodes.live(session)]
    return rooms(described, stage, Target.parse(job.target), job.backend_version)
