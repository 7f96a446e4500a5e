"""What an operator keeps for how long, and what is due by that. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


class Rule(StrEnum):
    """What a rule of retention is about."""

    LOGS = "logs"
    RESULTS = "results"
    TWINS = "twins"
    QUARANTINED = "quarantined"
    CANDIDATES = "candidates"
    MODELS = "models"
    DATASETS = "datasets"
    EVENTS = "events"


SAID: dict[Rule, str] = {
    Rule.LOGS: "logs of attempts",
    Rule.RESULTS: "results of targets that ended unpublished",
    Rule.TWINS: "results that only a twin needed",
    Rule.QUARANTINED: "engines of quarantined artifacts",
    Rule.CANDIDATES: "what searches have made and not chosen",
    Rule.MODELS: "models that nothing uses",
    Rule.DATASETS: "datasets that nothing uses",
    Rule.EVENTS: "events of builds that have ended",
}


def setting_of(rule: Rule) -> str:
    """Return the variable with which the operator sets a rule."""
    return f"ENGINEFARM_{rule.upper()}_KEPT_DAYS"


@dataclass(frozen=True)
class Terms:
    """For how many days each kind is kept; 0: for ever."""

    days: dict[Rule, float] = field(default_factory=dict)

    def before(self, rule: Rule, now: datetime) -> datetime | None:
        """Return the moment before which things are due; None if they are kept for ever."""
        days = self.days.get(rule, 0)
        return now - timedelta(days=days) if days > 0 else None


@dataclass(frozen=True)
class Thing:
    """Something that a rule looks at.

    ``key`` finds its row and orders it among its like. ``since`` is when it was made or ended,
    ``uses`` are the later moments at which somebody used it. ``live``: a build that has not ended
    needs it. ``referred``: an artifact that is out, or was, needs it. ``unreadable``: why its row
    cannot be read; nothing is known of it, so it stays.
    """

    rule: Rule
    tenant_id: str
    key: tuple[object, ...]
    name: str
    since: datetime
    uses: tuple[datetime, ...] = ()
    live: bool = False
    referred: bool = False
    size: int = 0
    unreadable: str = ""


def is_due(thing: Thing, before: datetime | None) -> bool:
    """Tell whether a thing goes: its time is over and nobody needs it."""
    if before is None or thing.live or thing.referred or thing.unreadable:
        return False
    return max((thing.since, *thing.uses)) < before
