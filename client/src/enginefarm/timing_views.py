"""What the REST API answers of timing caches."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, JsonValue

from enginefarm.digest import Digest
from enginefarm.views import View


class TimingSnapshotView(View):
    """One snapshot. ``state``: kept, quarantined (``why``) or removed."""

    generation: int
    digest: Digest
    size: int
    entries: int
    state: str
    why: str | None = None
    job_id: str
    created_at: datetime


class TimingCacheView(View):
    """The timings that builds of one kind have left for the next."""

    namespace: Digest
    backend: str
    version: str
    cuda: str
    gpu: str
    flags: dict[str, JsonValue]
    generation: int
    current: int | None = Field(description="The newest snapshot's generation.")
    pinned: int | None = Field(description="The one that every build is given, if it is held.")
    builds: int = Field(description="Builds that told how many entries served them.")
    hits: int = Field(description="Entries that served them, by the runtime's own log.")
    created_at: datetime
    updated_at: datetime
    snapshots: list[TimingSnapshotView] = Field(
        default=[], description="The newest first; only where one namespace is asked for."
    )


class TimingPin(View):
    """Which snapshot is held; null: the newest again."""

    generation: int | None
