"""Whether a device can be relied on, from what NVML says of it over time. Pure.

A device is out while any reason holds, and is back when none does. What only a reset heals holds
until the driver says that it is gone. An Xid by itself is a word about the past: the device stays
out until it was quiet for a while, longer if the words are not about some program's own mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.gpu.exclusive import CONTEXT_BYTES, MIB
from workers.gpu.port import Errors, Process

OF_PROGRAMS = frozenset({13, 31, 32, 43, 45, 68, 69, 109})
"""Xids that a program brings about by its own mistake, or by being killed."""
QUIET_AFTER_PROGRAM_S, QUIET_S = 30.0, 600.0
LOOKS = 2
"""So often in a row a stranger must be seen: a job's own context outlives its lock by a moment."""
XIDS = {
    48: "an uncorrectable memory error",
    62: "a halt of its controller",
    63: "a row of memory to be remapped",
    64: "a row of memory that could not be remapped",
    74: "an NVLink error",
    79: "it fell off the bus",
    94: "a contained memory error",
    95: "an uncontained memory error",
    119: "its system processor does not answer",
    120: "an error of its system processor",
}


@dataclass
class Health:
    """What is known of one device."""

    out: str | None = None
    """Why it cannot be used at all, in words: it does not answer, or cannot be locked."""
    errors: Errors = field(default_factory=Errors)
    _xid: int | None = None
    _xid_at: float = 0.0
    _strangers: str | None = None
    _looks: int = 0

    def hear_xid(self, xid: int, now: float) -> None:
        """Hear of an Xid; a grave one is not covered up by a lesser one that follows."""
        grave = self._xid is not None and self._xid not in OF_PROGRAMS and self._loud(now)
        if xid in OF_PROGRAMS and grave:
            return
        self._xid, self._xid_at = xid, now

    def see_unlocked(self, processes: list[Process], used_bytes: int | None) -> None:
        """See who is on the device while no job of this host has it."""
        words = _strangers(processes, used_bytes)
        self._looks = self._looks + 1 if words else 0
        self._strangers = words

    def see_locked(self) -> None:
        """Nobody can be told from a job that has the device; the job itself looks around."""
        self._looks, self._strangers = 0, None

    def fault(self, now: float) -> str | None:
        """Return why the device is out, or None if it is well."""
        if self.out is not None:
            return self.out
        if self.errors.uncorrected:
            return (
                f"{self.errors.uncorrected} uncorrectable memory errors since its driver was loaded"
            )
        if self.errors.needs_reset:
            return "memory was found bad that only a reset puts out of use"
        if self._xid is not None and self._loud(now):
            about = XIDS.get(self._xid)
            return f"Xid {self._xid}" + (f": {about}" if about else "")
        if self._looks >= LOOKS and self._strangers is not None:
            return f"used by a process that is not the farm's: {self._strangers}"
        return None

    def _loud(self, now: float) -> bool:
        quiet = QUIET_AFTER_PROGRAM_S if self._xid in OF_PROGRAMS else QUIET_S
        return now - self._xid_at < quiet


def _strangers(processes: list[Process], used_bytes: int | None) -> str | None:
    """Name who computes there; a desktop that draws is no reason to take a device out."""
    computing = [row for row in processes if row.compute]
    if computing:
        named = (
            f"{row.pid}" + (f" ({row.memory_bytes // MIB} MiB)" if row.memory_bytes else "")
            for row in computing
        )
        return f"process {', '.join(named)}"
    if not processes and used_bytes is not None and used_bytes >= CONTEXT_BYTES:
        return f"{used_bytes // MIB} MiB are in use by what the driver does not show here"
    return None
