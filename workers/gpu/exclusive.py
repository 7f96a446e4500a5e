"""Whether a job has its device to itself, from what NVML shows of others. Pure.

Process numbers prove little: from within a container the driver shows those of another namespace,
or none. So nobody is recognised by number alone. Before a job has a context of its own, whoever is
there is a stranger. Afterwards one more may be there: the job itself. Where no process is shown at
all, even when the job itself must be, the device's memory is asked: a context takes hundreds of
MiB, and one that nobody here has made belongs to a stranger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workers.gpu.port import Process

CONTEXT_BYTES = 192 << 20
"""Less than any CUDA context takes, and more than a driver uses for itself."""
MIB = 1 << 20


@dataclass
class Onlookers:
    """Judges who was seen on a device, from before the job's own context to after its work.

    ``own`` are the numbers of the job's process, wherever it is known by these.
    """

    own: frozenset[int]
    before: list[Process] = field(default_factory=list)
    used_before: int | None = None
    _mine: int | None = None
    _shown: bool = False
    _steady: int | None = None
    _found: dict[str, str] = field(default_factory=dict)
    """What was found, each thing once: of a process, as it was seen last."""

    def again(self) -> Onlookers:
        """Return a judge of the next measurement, who knows what was there before the job.

        Who has gone since is held against nobody.
        """
        return Onlookers(self.own, self.before, self.used_before, _mine=self._mine)

    def look_before(self, processes: Sequence[Process], used_bytes: int | None) -> None:
        """See the device before the job has a context: all that is there are strangers."""
        self.before, self.used_before = list(processes), used_bytes
        self._look_for_those_before(processes)

    def look_during(self, processes: Sequence[Process], used_bytes: int | None) -> None:
        """See the device while the job works at a steady shape."""
        self._look_for_those_before(processes)
        there = {row.pid for row in self.before}
        fresh = [row for row in processes if row.pid not in there]
        self._shown = self._shown or bool(fresh)
        strangers = [row for row in fresh if not self._is_mine(row, fresh)]
        for row in strangers:
            self._found[f"came {row.pid}"] = f"{_named(row)} came while the job ran"
        if not fresh:
            self._look_at_memory(used_bytes)

    def _look_for_those_before(self, processes: Sequence[Process]) -> None:
        there = {row.pid for row in processes}
        for row in self.before:
            if row.pid in there:
                self._found[f"before {row.pid}"] = f"{_named(row)} was there before the job"
        used = self.used_before
        if not self.before and used is not None and used >= CONTEXT_BYTES:
            words = f"{used // MIB} MiB were in use before the job by what is not shown"
            self._found["used before"] = words

    def _is_mine(self, row: Process, fresh: Sequence[Process]) -> bool:
        if row.pid in self.own or row.pid == self._mine:
            return True
        known = any(other.pid in self.own or other.pid == self._mine for other in fresh)
        if known or self._mine is not None or not row.compute:
            return False
        self._mine = row.pid  # the first that came with our context is ours, whatever its number
        return True

    def _look_at_memory(self, used_bytes: int | None) -> None:
        if used_bytes is None:
            return
        if self._steady is not None and used_bytes - self._steady >= CONTEXT_BYTES:
            more = (used_bytes - self._steady) // MIB
            words = f"{more} MiB more were in use while the job ran, by what is not shown"
            self._found["used more"] = words
        self._steady = used_bytes if self._steady is None else min(self._steady, used_bytes)

    @property
    def strangers(self) -> list[str]:
        """Who else was seen, in words."""
        return list(self._found.values())

    def verdict(self) -> tuple[bool | None, str]:
        """Tell whether the job was alone, None if that cannot be known, and from what."""
        if self._found:
            return False, "; ".join(self._found.values())
        if self._shown:
            return True, "the driver showed no process before the job and only its own with it"
        if self.used_before is not None and self._steady is not None:
            return True, (
                "the driver shows no processes here; no context's memory was in use before the job,"
                " and none came beside it"
            )
        return None, "the driver shows neither processes nor memory here"


def _named(row: Process) -> str:
    kind = "process" if row.compute else "process that draws"
    size = "" if row.memory_bytes is None else f" with {row.memory_bytes // MIB} MiB"
    return f"{kind} {row.pid}{size}"
