"""Hold every rule against a model for a target, and put the findings in order."""

from __future__ import annotations

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
    return ordered(found for rule in RULES for found in rule(subject))


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


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings without repetitions, the grave first, and not too many."""
    found = sorted(dict.fromkeys(findings), key=lambda each: ORDER.index(each.severity))
    if len(found) <= MOST_FINDINGS:
        return found
    more = len(found) - MOST_FINDINGS
    return [
        *found[:MOST_FINDINGS],
        note_finding(
            "findings_cut", f"Not listed: {counted(more, 'more finding')}.", fix="Mend these first."
        ),
    ]


def stops(findings: Sequence[Finding]) -> bool:
    """Tell whether any of the findings stops the build."""
    return any(each.severity is Severity.ERROR for each in findings)
