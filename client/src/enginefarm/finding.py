"""What is wrong with a model for a target, or worth knowing: the words of the check.

A finding says what and where (nodes and tensors by name), why, and what to do, under a stable code
of :mod:`enginefarm.codes`. Rules, parsers and trial runs all speak in findings.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

_NAMED, _NAME_CHARS = 5, 120


class Severity(StrEnum):
    """Whether a finding stops the build."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
"""The grave first."""


class Finding(BaseModel):
    """One thing that is wrong with a model for a target, or worth knowing.

    ``where`` is for people; ``nodes`` and ``tensors`` have the first of the names in it. A node
    without a name is called ``#`` and its number in the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    severity: Severity
    code: str
    message: str
    why: str = ""
    where: str = ""
    fix: str = ""
    nodes: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    operator: str = ""


def error_finding(code: str, message: str, **said: str) -> Finding:
    """Return a finding that stops the build."""
    return Finding(severity=Severity.ERROR, code=code, message=message, **said)


def warning_finding(code: str, message: str, **said: str) -> Finding:
    """Return a finding that does not stop the build and may well be a mistake."""
    return Finding(severity=Severity.WARNING, code=code, message=message, **said)


def note_finding(code: str, message: str, **said: str) -> Finding:
    """Return a finding that is only worth knowing."""
    return Finding(severity=Severity.NOTE, code=code, message=message, **said)


def at_nodes(finding: Finding, names: Iterable[str], operator: str = "") -> Finding:
    """Return the finding with the nodes that it is about."""
    names = list(names)
    return finding.model_copy(
        update={
            "nodes": tuple(map(shown, names[:_NAMED])),
            "operator": shown(operator),
            "where": listed(names, "nodes"),
        }
    )


def at_tensors(finding: Finding, names: Iterable[str]) -> Finding:
    """Return the finding with the tensors that it is about."""
    names = list(names)
    first = tuple(map(shown, names[:_NAMED]))
    return finding.model_copy(update={"tensors": first, "where": listed(names, "tensors")})


def listed(names: Iterable[str], what: str) -> str:
    """Return the first names in words, and how many there are if that is more."""
    names = list(names)
    first = ", ".join(map(shown, names[:_NAMED]))
    return f"{first}, … ({len(names)} {what})" if len(names) > _NAMED else first


def shown(name: str) -> str:
    """Return a name of a model as a database keeps it and a terminal shows it."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)[
        :_NAME_CHARS
    ]


def graver(one: Severity, other: Severity) -> Severity:
    """Return the graver of two severities."""
    return min(one, other, key=ORDER.index)
