"""What a search has tried and tries next, in the words of its pure rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enginefarm.precision import Precision
from enginefarm.search_views import Outcome


@dataclass(frozen=True)
class Proposal:
    """A precision to try, and why. ``profile``: another than the build's, by its name."""

    precision: Precision
    why: str
    profile: str | None = None


@dataclass(frozen=True)
class Tried:
    """A candidate; ``outcome`` is None while it is under way."""

    precision: Precision
    outcome: Outcome | None
    profile: str | None = None


@dataclass(frozen=True)
class Step:
    """What to try now; ``over``: nothing is left to try or to wait for. ``why``: what ended it.

    ``held``: what would be tried if there were a node with its tool; ``waits``: nothing else is
    left.
    """

    proposals: Sequence[Proposal] = ()
    over: bool = False
    why: str = ""
    held: Sequence[Proposal] = ()
    waits: bool = False
