"""One finding for all nodes or tensors that have one fault, not one for each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from enginefarm.finding import Finding, Severity
from enginefarm.preflight.subject import Subject

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
MOST_FAULTS = 1000
"""More kinds of faults than anybody reads; a hostile model may have one for each attribute."""


def grouped(
    pairs: Iterable[tuple[Key, Value]], *, most: int | None = None
) -> dict[Key, list[Value]]:
    """Return the values of each key, in the order in which the keys came; of the first ``most``."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        if most is not None and len(found) >= most and key not in found:
            continue
        found.setdefault(key, []).append(value)
    return found


def refusal(subject: Subject, code: str, message: str, **said: str) -> Finding:
    """Return an error, or a warning where the table was not made for the backend's version."""
    table = subject.capabilities
    if table.exact:
        return Finding(severity=Severity.ERROR, code=code, message=message, **said)
    why = said.pop("why", "")
    told = f"{why} This is known of {table.label} {table.version}; the compiler decides.".strip()
    return Finding(severity=Severity.WARNING, code=code, message=message, why=told, **said)
