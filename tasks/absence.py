"""Whether a lease ran out because the farm itself was away. Pure.

A node cannot say that it lives while nobody listens. So what ran out while the control plane was
away is held against nobody: the node has a while to report, and then the job is run again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

GAP_S = 20.0
"""A part that was not heard for so long was away; it beats every few seconds."""
BEAT_S = 5.0
"""Between the beats of the API."""


@dataclass(frozen=True)
class Heard:
    """When a part of the control plane was heard last, and its last absence before that."""

    beat_at: datetime
    away_from: datetime | None = None
    back_at: datetime | None = None


def excused_until(
    lease_until: datetime, parts: Iterable[Heard], now: datetime, grace_s: float
) -> datetime | None:
    """Return until when a lease that ran out while the farm was away may still be reported for.

    None if the farm was there when it ran out. While a part is away still, the answer lies ahead.
    """
    grace = timedelta(seconds=grace_s)
    found: list[datetime] = []
    for part in parts:
        if part.beat_at < now - timedelta(seconds=GAP_S) and lease_until >= part.beat_at:
            found.append(now + grace)
            continue
        if part.away_from is None or part.back_at is None:
            continue
        if part.away_from <= lease_until <= part.back_at + grace:
            found.append(part.back_at + grace)
    return max(found, default=None)
