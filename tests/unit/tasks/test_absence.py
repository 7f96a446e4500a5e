"""A lease that ran out while the farm was away is not held against the node, for a while."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tasks.absence import Heard, excused_until

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GRACE_S = 60.0


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("lease_s_ago", "part", "until"),
    [
        (10, Heard(ago(1)), None),
        (10, Heard(ago(1000)), ago(-60)),  # away still, and the lease ran out meanwhile
        (2000, Heard(ago(1000)), None),  # it had run out before
        (500, Heard(ago(1), ago(1000), ago(30)), ago(-30)),  # back for half a minute
        (500, Heard(ago(1), ago(1000), ago(61)), ago(1)),  # the grace is over
        (2000, Heard(ago(1), ago(1000), ago(30)), None),
        (10, Heard(ago(1), ago(1000), ago(30)), ago(-30)),  # just after it was back
        (10, Heard(ago(1), ago(1000), ago(100)), None),  # long after it was back
    ],
)
def test_what_ran_out_meanwhile_is_excused_for_a_grace(
    lease_s_ago: float,
    part: Heard,
    until: datetime | None,
) -> None:
    parts = [Heard(ago(2)), part]

    assert excused_until(ago(lease_s_ago), parts, NOW, GRACE_S) == until


def test_who_was_never_heard_excuses_nothing() -> None:
    assert excused_until(ago(10), [], NOW, GRACE_S) is None
