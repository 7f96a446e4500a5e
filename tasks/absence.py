"""Whether a lease ran out because the farm itself was away. Pure.

A node cannot say that it lives while nobody listens. So what ran out while the control plane was
away is not held against the node, until it has had time to report.
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


def is_excused(
    lease_until: datetime, parts: Iterable[Heard], now: datetime, grace_s: float
) -> bool:
    """Tell whether a lease that has run out did so while a part of the farm was away.

    It is while one is away still, and for a grace after that one was back.
    """
    for part in parts:
        if part.beat_at < now - timedelta(seconds=GAP_S) and lease_until >= part.beat_at:
            return True
        if part.away_from is None or part.back_at is None:
            continue
        grace_over = part.back_at + timedelta(seconds=grace_s)
        if part.away_from <= lease_until <= grace_over and now < grace_over:
            return True
    return False
