"""What the control plane and a node say to each other of timing caches."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from enginefarm.compile_options import TimingReuse
from enginefarm.digest import Digest
from enginefarm.numbers import Whole

TIMING_CACHE_TYPE = "application/vnd.enginefarm.timing-cache.v1"
MOST_CACHE_BYTES = 256 << 20
_Generation = Annotated[Whole, Field(ge=0, lt=1 << 31)]


class _Reply(BaseModel):
    """What the farm says; a node of the version before leaves out what it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Leased(BaseModel):
    """What a node says of an attempt that is its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attempt: _Generation
    lease_token: Annotated[str, StringConstraints(max_length=200)]


class TimingFile(_Reply):
    """A snapshot. ``url``: a presigned GET."""

    digest: Digest
    size: int
    url: str


class TimingOffer(_Reply):
    """A namespace as it is now; a merge that rests on it names its ``generation``."""

    namespace: Digest
    generation: int
    reuse: TimingReuse = TimingReuse.AUTO
    newest: TimingFile | None = None
    begin_fresh: bool = False
    """Begin without the newest, since a build with it has crashed: only merge with it."""


class TimingMerge(_Leased):
    """A cache that holds all of the newest snapshot, and what the attempt timed itself.

    The bytes were sent as any file of an attempt. ``hits``: entries that served its build, by the
    runtime's own log.
    """

    base: _Generation
    digest: Digest
    size: Annotated[Whole, Field(ge=1, le=MOST_CACHE_BYTES)]
    entries: Annotated[Whole, Field(ge=0, lt=1 << 31)]
    hits: Annotated[Whole, Field(ge=0, lt=1 << 31)] | None = None


class TimingRefusal(_Leased):
    """The runtime does not take the snapshot that the attempt was given."""

    digest: Digest
    why: Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x08]*$")]


class TimingReply(_Reply):
    """What became of it. Not ``taken`` and not ``over``: merge with ``newest`` and offer again."""

    taken: bool
    over: bool
    why: str = ""
    now: TimingOffer
