"""The rules of retention over the rows: what each looks at, and how a thing is removed.

Rows that somebody may ask for stay and say that something was removed. Bytes leave by the sweep: a
rule only takes away the tenant's right to them once no other row of the tenant refers to them.
Whoever removes holds the tenant's lock, which submits, uploads, settling and publishing take, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from storage.database import Session
from storage.keeping import candidates, events, inputs, logs, quarantine, results, twins
from storage.retention import Rule, Thing

Key = tuple[object, ...]


@dataclass(frozen=True)
class Shelf:
    """How one rule works.

    ``page`` returns the things whose own row is older than a moment, in order, after a key;
    ``again`` looks at one anew, its row locked; ``remove`` removes it.
    """

    page: Callable[[Session, datetime, Key | None, int], Sequence[Thing]]
    again: Callable[[Session, Thing], Thing | None]
    remove: Callable[[Session, Thing], None]


SHELVES: dict[Rule, Shelf] = {
    Rule.LOGS: Shelf(logs.page, logs.again, logs.remove),
    Rule.RESULTS: Shelf(results.page, results.again, results.remove),
    Rule.TWINS: Shelf(twins.page, twins.again, twins.remove),
    Rule.QUARANTINED: Shelf(quarantine.page, quarantine.again, quarantine.remove),
    Rule.CANDIDATES: Shelf(candidates.page, candidates.again, candidates.remove),
    Rule.MODELS: Shelf(inputs.models, inputs.model_again, inputs.remove_model),
    Rule.DATASETS: Shelf(inputs.datasets, inputs.dataset_again, inputs.remove_dataset),
    Rule.EVENTS: Shelf(events.page, events.again, events.remove),
}
