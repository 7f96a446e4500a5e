"""The states and stages of things, by the names used in URLs, rows, logs and pages.

Which move is legal is decided in one place, ``tasks.lifecycle``; here are only the names.
"""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """A step of a build on one target, in the order in which they run.

    A build has ``cast`` or ``calibrate`` only where it asks for a precision.
    """

    REPAIR = "repair"
    CAST = "cast"
    CALIBRATE = "calibrate"
    CHECK = "check"
    COMPILE = "compile"
    BENCHMARK = "benchmark"
    PUBLISH = "publish"


PRECISION_STAGES = (Stage.CAST, Stage.CALIBRATE)
PLAIN_STAGES = tuple(stage for stage in Stage if stage not in PRECISION_STAGES)
"""The stages of a build that asks for no precision."""


class JobState(StrEnum):
    """Where one stage of a build on one target stands."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    UPLOADED = "uploaded"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow."""
        return self in TERMINAL_JOB_STATES


TERMINAL_JOB_STATES = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED}
)


class BuildState(StrEnum):
    """Where a build stands; ``partial`` means some targets were published and some were not."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow."""
        return self not in {BuildState.PENDING, BuildState.RUNNING}


class BuildKind(StrEnum):
    """What was asked for: engines, or only what is wrong with a model (``until: check``).

    ``comparison``: it measures two artifacts and builds none; no list of builds has it.
    """

    BUILD = "build"
    CHECK = "check"
    COMPARISON = "comparison"


class ArtifactState(StrEnum):
    """Whether deployers may fetch an artifact."""

    QUARANTINED = "quarantined"
    PUBLISHED = "published"
    REVOKED = "revoked"


class NodeState(StrEnum):
    """Whether a node takes work."""

    ACTIVE = "active"
    DRAINING = "draining"
    OFFLINE = "offline"
    OUT_OF_SERVICE = "out_of_service"


class UploadState(StrEnum):
    """Where an upload in parts stands."""

    OPEN = "open"
    VERIFYING = "verifying"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow."""
        return self not in {UploadState.OPEN, UploadState.VERIFYING}


class Blame(StrEnum):
    """Whose fault a failure is; it decides what happens next.

    The person's is never retried; the node's is retried on another node up to a limit; the farm's
    waits and resumes.
    """

    PERSON = "person"
    NODE = "node"
    FARM = "farm"


class Scope(StrEnum):
    """What an API key may do. ``admin`` includes the others."""

    SUBMIT = "submit"
    READ = "read"
    DEPLOY = "deploy"
    ADMIN = "admin"
