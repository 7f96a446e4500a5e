"""From how a child ended to what is said of it: a failure with a code, a blame and a cure. Pure."""

from __future__ import annotations

from enginefarm.errors import Failure
from enginefarm.state import Blame
from workers import ends
from workers.sandbox import Ending, Limits, Outcome

GIB = 1 << 30
_LINE = 600
# What faulthandler and the farm print around the words of a runtime.
_TRACE = (
    "File ",
    "Fatal Python error",
    "Thread 0x",
    "Current thread",
    "Extension modules",
    "enginefarm:",
)


def failure_of(outcome: Outcome, limits: Limits) -> Failure | None:
    """Return why a child gave no result, or None if it ended by itself."""
    makers = {
        Ending.KILLED: _killed,
        Ending.OUT_OF_MEMORY: _out_of_memory,
        Ending.MEMORY_LIMIT: _memory_limit,
        Ending.RUNNING_LIMIT: _running_limit,
        Ending.SILENT_LIMIT: _silent_limit,
    }
    maker = makers.get(outcome.ending)
    return maker(outcome, limits) if maker else None


def with_last_words(failure: Failure, log: str) -> Failure:
    """Return a failure with the last line that the child printed: most often the decisive one."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if not line.startswith(_TRACE)), "")
    if not said:
        return failure
    return failure.model_copy(update={"context": {**failure.context, "said": said[:_LINE]}})


def no_result(outcome: Outcome) -> Failure:
    """Return the failure of a child that left without a word."""
    if outcome.returncode == ends.NO_ROOM_STATUS:
        return ends.no_room("There was none even for the job's result.")
    return Failure(
        code="child_failed",
        blame=Blame.NODE,
        message=f"The job's process ended with status {outcome.returncode} and left no result.",
        why="It failed before or outside its own error handling.",
        fix="Read the end of the job's log.",
        context={"returncode": outcome.returncode},
    )


def _killed(outcome: Outcome, _limits: Limits) -> Failure:
    crashed = outcome.signal in {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP"}
    return Failure(
        code="child_crashed" if crashed else "child_killed",
        blame=Blame.NODE,
        message=f"The job's process died of {outcome.signal} after {outcome.seconds:.1f} s.",
        why="The runtime crashed in native code, most often on an operator it does not expect."
        if crashed
        else "Something outside the farm killed it, or the kernel did.",
        fix="Read the end of the job's log; if it happens on a second node, the model or the"
        " runtime's version is the cause."
        if crashed
        else "Look at the node's kernel log.",
        context={"signal": outcome.signal},
    )


def _out_of_memory(outcome: Outcome, _limits: Limits) -> Failure:
    return Failure(
        code="out_of_memory",
        blame=Blame.NODE,
        message="The kernel killed the job because the node ran out of memory.",
        why=f"The job held {outcome.peak_memory_bytes / GIB:.2f} GiB when it was last looked at.",
        fix="Use a node with more memory, reduce the profile's max, or run fewer slots.",
        context={"peak_memory_bytes": outcome.peak_memory_bytes},
    )


def _memory_limit(outcome: Outcome, limits: Limits) -> Failure:
    allowed = limits.memory_bytes or 0
    return Failure(
        code="memory_limit",
        # The same limit would end it the same way anywhere.
        blame=Blame.PERSON,
        message=f"The job used {outcome.peak_memory_bytes / GIB:.2f} GiB of"
        f" {allowed / GIB:.2f} GiB allowed.",
        why="Memory grows with the weights and with the profile's max.",
        fix="Reduce the profile's max, or have the operator raise the limit.",
        context={"peak_memory_bytes": outcome.peak_memory_bytes, "limit_bytes": allowed},
    )


def _running_limit(outcome: Outcome, limits: Limits) -> Failure:
    return Failure(
        code="running_limit",
        blame=Blame.PERSON,
        message=f"The job ran longer than its limit of {limits.running_s:.0f} s.",
        why="It was still working when the time was over.",
        fix="Raise limits.running_s, or lower the optimization level.",
        context={"limit_s": limits.running_s, "seconds": outcome.seconds},
    )


def _silent_limit(outcome: Outcome, limits: Limits) -> Failure:
    return Failure(
        code="silent_limit",
        blame=Blame.NODE,
        message=f"The job said nothing for {limits.silent_s:.0f} s.",
        why="It hangs, or the runtime works in one step without a sign of life.",
        fix="Raise limits.silent_s if the step is known to be long.",
        context={"limit_s": limits.silent_s, "seconds": outcome.seconds},
    )
