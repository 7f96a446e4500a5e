"""TensorRT's timing cache: attached to a build, taken from it afterwards, merged with another.

All of it happens within one namespace (backend version, CUDA, GPU by name, options): so a cache of
another card of the same kind is taken (``ignore_mismatch``), and the runtime's own version check is
heard. TensorRT-RTX times nothing and is never asked.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from enginefarm.compile_options import CompileOptions, TimingReuse
from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from workers.backends.base import TimingGiven
from workers.backends.trt.recording import Record, plain
from workers.diagnosis import shorten
from workers.timing import FILE_NAME, ChildTiming

_MISS = re.compile(r"ERROR_ON_TIMING_CACHE_MISS", re.IGNORECASE)
NONE_KEPT = (
    "No timings are kept for this node: the CUDA of its TensorRT, or its GPU, is not certain."
)
NONE_KEPT_FIX = "Install TensorRT's packages for one CUDA there, or leave compile.timing_cache out."
_AGAIN = "Build once with compile.timing_cache=auto, then again."


class TensorRTTimingCaches:
    """:class:`workers.timing.TimingCaches` by TensorRT itself."""

    def __init__(self, trt: ModuleType, logger: Any, record: Record) -> None:  # noqa: ANN401 - the runtime's class
        """Use a runtime that is imported, with its one logger."""
        self._trt, self._record = trt, record
        self._builder = trt.Builder(logger)

    def merged(self, mine: bytes, theirs: bytes) -> bytes | None:
        """Return both in one; None if the runtime does not take one of them."""
        config = self._builder.create_builder_config()
        cache, other = taken(config, self._record, mine), taken(config, self._record, theirs)
        if cache is None or other is None or not cache.combine(other, ignore_mismatch=True):
            return None
        return bytes(memoryview(cache.serialize()))

    def entries(self, data: bytes) -> int | None:
        """Return how many entries a cache has; None if the runtime does not take it."""
        cache = taken(self._builder.create_builder_config(), self._record, data)
        return None if cache is None else len(cache.queryKeys())


def taken(config: Any, record: Record, data: bytes) -> Any:  # noqa: ANN401 - the runtime's classes
    """Return a cache that the config has and the runtime will use, or None."""
    refused_before = len(record.timing_refusals)
    cache = config.create_timing_cache(data)
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=True):
        return None
    # It may only be an error in the log, and the build would go on without.
    return cache if len(record.timing_refusals) == refused_before else None


class BuildTiming:
    """The cache of one build."""

    def __init__(self, trt: ModuleType, record: Record, given: TimingGiven) -> None:
        """Begin with the snapshot that was given, if one was."""
        self._trt, self._record, self._given = trt, record, given
        self._cache: Any = None
        self._refused: str | None = None

    def attach(self, config: Any) -> None:  # noqa: ANN401 - the runtime's class
        """Attach the snapshot; one that the runtime does not take is left out, and that is told.

        Raises:
            JobFailed: nothing may be timed, and there is no cache (``timing_cache_missing``).
        """
        if self._given.snapshot is not None:
            errors_before = list(self._record.errors)
            self._cache = taken(config, self._record, self._given.snapshot.read_bytes())
            if self._cache is None:
                said = [*self._record.errors[len(errors_before) :], *self._record.timing_refusals]
                self._refused = shorten(plain(said[-1]), 300) if said else "it gives no reason"
                self._record.errors[:] = errors_before  # not the build's
        if self._given.reuse is TimingReuse.REQUIRED:
            if self._cache is None:
                raise _missing(self._refused)
            config.set_flag(self._trt.BuilderFlag.ERROR_ON_TIMING_CACHE_MISS)
        if self._cache is None:
            self._cache = config.create_timing_cache(b"")
            config.set_timing_cache(self._cache, ignore_mismatch=True)

    def require_hit(self) -> None:
        """Say of a build that failed whether it was for want of a timing.

        Raises:
            JobFailed: it was (``timing_cache_miss``).
        """
        missed = [plain(text) for text in self._record.errors if _MISS.search(text)]
        if self._given.reuse is TimingReuse.REQUIRED and missed:
            raise JobFailed(
                "The build needs a timing that its timing cache lacks.",
                blame=Blame.PERSON,
                code="timing_cache_miss",
                why=shorten(missed[0], 300),
                fix=_AGAIN,
            )

    def left(self, config: Any) -> ChildTiming:  # noqa: ANN401 - the runtime's class
        """Write what the build has left, and let go of it."""
        cache = config.get_timing_cache()
        path = self._given.folder / FILE_NAME
        path.write_bytes(memoryview(cache.serialize()))
        self._cache = None
        return ChildTiming(path=path, entries=len(cache.queryKeys()), refused=self._refused)


def require_none_asked(options: CompileOptions) -> None:
    """Refuse a build without any timing cache that may time nothing.

    Raises:
        JobFailed: it may not (``timing_cache_missing``).
    """
    if options.timing_cache is TimingReuse.REQUIRED:
        raise _missing_because(NONE_KEPT, NONE_KEPT_FIX)


def _missing(refused: str | None) -> JobFailed:
    taken = f"The runtime does not take the newest one: {refused}"
    return _missing_because(taken if refused else "None was kept yet.", _AGAIN)


def _missing_because(why: str, fix: str) -> JobFailed:
    return JobFailed(
        "The build may time nothing, and there is no timing cache for it.",
        blame=Blame.PERSON,
        code="timing_cache_missing",
        why=why,
        fix=fix,
    )
