"""Every state against every move, and who is tried again."""

from __future__ import annotations

from itertools import product

import pytest

from enginefarm.errors import Conflict
from enginefarm.state import Blame, BuildState, JobState
from tasks.lifecycle import (
    LEGAL_MOVES,
    NODES_SPOILT,
    after_failure,
    build_state,
    may_move,
    require_move,
    target_state,
)

W, Q, R, U = JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.UPLOADED
S, F, C, E = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED

# One row for each state: which of W Q R U S F C E may follow.
TABLE = {
    W: ".QR.SFCE",
    Q: "..R.SFCE",
    R: "WQ.USFC.",
    U: ".Q..SFC.",
    S: "........",
    F: "........",
    C: "........",
    E: "........",
}
GOALS = dict(zip("WQRUSFCE", (W, Q, R, U, S, F, C, E), strict=True))


@pytest.mark.parametrize(("source", "letter"), list(product(TABLE, GOALS)))
def test_each_move_is_legal_exactly_where_the_table_says_so(source: JobState, letter: str) -> None:
    goal = GOALS[letter]
    assert may_move(source, goal) is (letter in TABLE[source])
    if may_move(source, goal):
        require_move(source, goal)
        return
    with pytest.raises(Conflict) as refused:
        require_move(source, goal)
    assert refused.value.code == "illegal_move"
    assert f"is {source} cannot become {goal}" in refused.value.message


def test_every_state_has_its_row_and_only_ended_ones_lead_nowhere() -> None:
    assert set(LEGAL_MOVES) == set(JobState)
    assert {state for state, goals in LEGAL_MOVES.items() if not goals} == {
        state for state in JobState if state.terminal
    }


def test_no_state_moves_to_itself() -> None:
    assert not any(may_move(state, state) for state in JobState)


@pytest.mark.parametrize(
    ("blame", "failures", "nodes", "goal"),
    [
        (Blame.PERSON, 1, 0, F),
        (Blame.NODE, 1, 1, Q),
        (Blame.NODE, 2, 1, Q),
        (Blame.NODE, 3, 1, F),
        (Blame.NODE, 2, NODES_SPOILT, F),
        (Blame.FARM, 1, 0, Q),
        (Blame.FARM, 2, NODES_SPOILT, Q),
        (Blame.FARM, 3, 0, F),
    ],
)
def test_whose_fault_a_failure_is_decides_whether_it_is_tried_again(
    blame: Blame, failures: int, nodes: int, goal: JobState
) -> None:
    assert after_failure(blame, failures, 3, nodes) is goal


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([W, W, W], W),
        ([Q, W, W], Q),
        ([R, W, W], R),
        ([S, W, W], R),
        ([S, Q, W], Q),
        ([S, U, W], U),
        ([S, S, W], R),
        ([S, S, S], S),
        ([F, C, C], F),
        ([S, E, C], E),
        ([C, C, C], C),
    ],
)
def test_a_target_stands_where_its_current_stage_stands(
    states: list[JobState], expected: JobState
) -> None:
    assert target_state(states) is expected


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ([W], BuildState.PENDING),
        ([W, Q], BuildState.RUNNING),
        ([S, W], BuildState.RUNNING),
        ([F, R], BuildState.RUNNING),
        ([S, S], BuildState.SUCCEEDED),
        ([S, F], BuildState.PARTIAL),
        ([S, E], BuildState.PARTIAL),
        ([F, F], BuildState.FAILED),
        ([E], BuildState.FAILED),
    ],
)
def test_a_build_follows_from_its_targets(targets: list[JobState], expected: BuildState) -> None:
    assert build_state(targets, cancelled=False) is expected


@pytest.mark.parametrize("states", [[W], [R], [S], [F, S]])
def test_a_cancelled_build_is_cancelled_whatever_its_targets_do(states: list[JobState]) -> None:
    assert build_state(states, cancelled=True) is BuildState.CANCELLED
