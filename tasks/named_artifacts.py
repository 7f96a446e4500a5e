"""The artifacts that gates name: whether there is such a one, and what its report says."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.comparable import tainted
from enginefarm.errors import InvalidRequest, NotFound
from enginefarm.gate import Gate, Metric, Tainted
from enginefarm.report import BuildReport
from enginefarm.state import ArtifactState
from storage import artifacts
from storage.database import Session
from storage.models import Artifact
from tasks.readings import LATENCIES


def require_named(session: Session, tenant_id: str, gates: Sequence[Gate]) -> None:
    """Refuse gates that name what nothing can be held against, before anything is built.

    Raises:
        NotFound: the tenant has no such artifact.
        InvalidRequest: it is not published, was not measured, or so that its latency cannot be
            relied on (code ``gate_against``).
    """
    for gate in gates:
        if gate.against is None:
            continue
        row = artifacts.get(session, tenant_id, gate.against)
        unfit = _unfit(row)
        why = unfit or without_number(gate, _report(row))
        if why is not None:
            raise InvalidRequest(
                f"A gate on {gate.metric} cannot be held against {gate.against}.",
                code="gate_against",
                why=f"{why[0].upper()}{why[1:]}.",
                fix="Name a published artifact whose report has the number"
                + ("." if unfit else "; with if_tainted: allow it may be one that was tainted."),
                artifact=gate.against,
            )


def without_number(gate: Gate, report: BuildReport) -> str | None:
    """Tell why a report has no number that a gate could be held against."""
    if gate.metric is not Metric.ENGINE_BYTES and not report.measured:
        return "it was not measured"
    if gate.metric not in LATENCIES or gate.if_tainted is Tainted.ALLOW:
        return None
    skus = [] if report.portability is None else report.portability.skus
    # Of several SKUs those that were disturbed are for the gate to tell.
    each = [row.latency for row in skus if row.latency] or [report.latency]
    doubts = [tainted([row for row in rows if not row.swept]) for rows in each]
    return f"its {doubts[0]}" if all(doubts) else None


def named_reports(
    session: Session, tenant_id: str, gates: Sequence[Gate]
) -> dict[str, BuildReport | str]:
    """Return the report of each artifact that gates name, or why it does not count (any more)."""
    found: dict[str, BuildReport | str] = {}
    for digest in {gate.against for gate in gates if gate.against is not None}:
        try:
            row = artifacts.get(session, tenant_id, digest)
        except NotFound as error:
            found[digest] = error.message.rstrip(".")
        else:
            found[digest] = _unfit(row) or _report(row)
    return found


def _unfit(row: Artifact) -> str | None:
    if row.state is not ArtifactState.PUBLISHED:
        return f"it is {row.state}"
    return None if row.report is not None else "it has no report"


def _report(row: Artifact) -> BuildReport:
    return BuildReport.model_validate(row.report)
