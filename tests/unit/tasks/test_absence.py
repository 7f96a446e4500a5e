"""A lease that ran out while the farm was away is not held against the node, for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tasks.absence import Heard, is_excused

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GRACE_S = 60.0


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("lease_s_ago", "part", "excused"),
    [
        (10, Heard(ago(1)), False),
        (10, Heard(ago(1000)), True),  # away still, and the lease ran out meanwhile
        (2000, Heard(ago(1000)), False),  # it had run out before
        (500, Heard(ago(1), ago(1000), ago(30)), True),  # back for half a minute
        (500, Heard(ago(1), ago(1000), ago(61)), False),  # the grace is over
        (2000, Heard(ago(1), ago(1000), ago(30)), False),
        (10, Heard(ago(1), ago(1000), ago(30)), True),  # just after it was back
    ],
)
def test_what_ran_out_meanwhile_is_excused_for_a_grace(
    lease_s_ago: float,
    part: Heard,
    excused: bool,  # noqa: FBT001 - a column of the table
) -> None:
    parts = [Heard(ago(2)), part]

    assert is_excused(ago(lease_s_ago), parts, NOW, GRACE_S) is excused


def test_who_was_never_heard_excuses_nothing() -> None:
    assert not is_excused(ago(10), [], NOW, GRACE_S)
