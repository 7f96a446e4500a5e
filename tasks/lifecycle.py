"""The one table of legal moves of a job, and how a build follows from its jobs. Pure.

    waiting ──► queued ──► running ──► uploaded ──► succeeded
       │           │          │            └──────► queued (bad upload) · failed · cancelled
       │           │          ├──► queued   (retry on another node, or handed back)
       │           │          └──► failed
       └───────────┴──► succeeded (cached) · cancelled · expired · failed

Rows move only through ``tasks.moves``: :func:`require_move`, then a compare-and-set on (state,
attempt); no other code writes a state.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.errors import Conflict
from enginefarm.state import Blame, BuildState, JobState

LEGAL_MOVES: dict[JobState, frozenset[JobState]] = {
    JobState.WAITING: frozenset(
        {
            JobState.QUEUED,
            JobState.RUNNING,  # publish: taken by the control plane without a queue
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.EXPIRED,
        }
    ),
    JobState.QUEUED: frozenset(
        {
            JobState.RUNNING,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.EXPIRED,
        }
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.UPLOADED,
            JobState.QUEUED,
            JobState.WAITING,  # publish: the farm's fault, tried again
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.UPLOADED: frozenset(
        {
            JobState.SUCCEEDED,
            JobState.QUEUED,  # what was uploaded is not what was announced: the node's fault
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.EXPIRED: frozenset(),
}


def may_move(source: JobState, goal: JobState) -> bool:
    """Tell whether a job may move from ``source`` to ``goal``."""
    return goal in LEGAL_MOVES[source]


def require_move(source: JobState, goal: JobState) -> None:
    """Refuse an illegal move.

    Raises:
        Conflict: the table has no such move (code ``illegal_move``).
    """
    if not may_move(source, goal):
        raise Conflict(
            f"A job that is {source} cannot become {goal}.",
            code="illegal_move",
            why="The job has moved on since this was asked.",
            fix="Read the job again.",
        )


NODES_SPOILT = 2
"""A job that failed on so many different nodes, by their fault, is not tried on another."""


def after_failure(blame: Blame, failures: int, limit: int, nodes: int = 0) -> JobState:
    """Return where a job goes when an attempt fails for the ``failures``-th time.

    The person's fault is never retried; the node's and the farm's are, up to ``limit`` attempts. A
    job that has spoilt :data:`NODES_SPOILT` of ``nodes`` is likelier at fault than they are.
    """
    if blame is Blame.PERSON or failures >= limit:
        return JobState.FAILED
    if blame is Blame.NODE and nodes >= NODES_SPOILT:
        return JobState.FAILED
    return JobState.QUEUED


def target_state(states: Sequence[JobState]) -> JobState:
    """Return where a target stands, from the states of its jobs in the order in which they run."""
    for state in states:
        if state.terminal and state is not JobState.SUCCEEDED:
            return state
    if all(state is JobState.SUCCEEDED for state in states):
        return JobState.SUCCEEDED
    current = next(state for state in states if state is not JobState.SUCCEEDED)
    if current is JobState.WAITING and states[0] is JobState.SUCCEEDED:
        return JobState.RUNNING  # between two stages
    return current


def build_state(target_states: Sequence[JobState], *, cancelled: bool) -> BuildState:
    """Return a build's state from the state of each of its targets.

    See :func:`target_state` for the state of a target.
    """
    if cancelled:
        return BuildState.CANCELLED
    if not all(state.terminal for state in target_states):
        started = any(state is not JobState.WAITING for state in target_states)
        return BuildState.RUNNING if started else BuildState.PENDING
    succeeded = [state is JobState.SUCCEEDED for state in target_states]
    if all(succeeded):
        return BuildState.SUCCEEDED
    return BuildState.PARTIAL if any(succeeded) else BuildState.FAILED
