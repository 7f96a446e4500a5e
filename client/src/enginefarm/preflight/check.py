"""Hold every rule against a model for a target, and put the findings in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from enginefarm.counted import counted
from enginefarm.errors import FarmError
from enginefarm.external_data import check_external
from enginefarm.finding import ORDER, Finding, Severity, error_finding, note_finding
from enginefarm.preflight.facts import ModelFacts
from enginefarm.preflight.reading import read_facts
from enginefarm.preflight.rules import RULES
from enginefarm.preflight.subject import Subject

MOST_FINDINGS = 100


def check(subject: Subject) -> list[Finding]:
    """Return all that the rules find, the grave first."""
    found: list[Finding] = []
    left = 0
    for rule in RULES:
        kept, more = first_of_each(rule(subject))
        found += kept
        left += more
    return ordered(found, left)


def first_of_each(findings: Iterable[Finding]) -> tuple[list[Finding], int]:
    """Return the first findings of each severity, and how many more there are.

    A hostile model may have one for each node, and nobody reads more than a hundred; but that
    something stops the build is never left out for what does not.
    """
    kept: list[Finding] = []
    counts = Counter[Severity]()
    for found in findings:
        counts[found.severity] += 1
        if counts[found.severity] <= MOST_FINDINGS:
            kept.append(found)
    return kept, sum(counts.values()) - len(kept)


def facts_or_finding(path: Path) -> ModelFacts | Finding:
    """Read a model's facts; a file that is no model gives the one finding that says so."""
    try:
        facts = read_facts(path)
        named = {
            ref.location for ref in facts.scan.external if Path(ref.location).name == ref.location
        }
        beside = {name: path.parent / name for name in named}
        sizes = {name: file.stat().st_size for name, file in beside.items() if file.is_file()}
        check_external(facts.scan, sizes)
    except FarmError as refused:
        return error_finding(refused.code, refused.message, why=refused.why, fix=refused.fix)
    return facts


def ordered(findings: Iterable[Finding], left: int = 0) -> list[Finding]:
    """Return findings without repetitions, the grave first, and not too many.

    ``left``: so many more were found and are not among them.
    """
    found = sorted(dict.fromkeys(findings), key=lambda each: ORDER.index(each.severity))
    more = max(len(found) - MOST_FINDINGS, 0) + left
    if more == 0:
        return found
    return [
        *found[:MOST_FINDINGS],
        note_finding(
            "findings_cut", f"Not listed: {counted(more, 'more finding')}.", fix="Mend these first."
        ),
    ]


def stops(findings: Sequence[Finding]) -> bool:
    """Tell whether any of the findings stops the build."""
    return any(each.severity is Severity.ERROR for each in findings)
