"""One engine on several SKUs: each is judged by itself, and the worst of them decides.

The report's own numbers are those of one SKU, the reference: the one that the engine was built on,
if it was measured there, else the first that it was measured on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from enginefarm.comparable import side_by_side
from enginefarm.gate import Gate
from enginefarm.report import (
    BuildReport,
    GateVerdict,
    LatencyReport,
    Machine,
    PortabilityReport,
    SkuReport,
)
from enginefarm.sku import sku_of
from enginefarm.state import JobState
from enginefarm.verdict_report import PrecisionVerdict, VerdictReport
from storage.models import Job
from tasks.gates import Named, judged_at_compile

Judged = Mapping[str, BuildReport]
"""A report for each SKU, as if it had been the only one, with its verdicts."""
_WORST = (PrecisionVerdict.REGRESSION, PrecisionVerdict.SLOWER, None, PrecisionVerdict.ACCEPT)
"""What decides for all SKUs, if it was said of one."""


def on_each(
    jobs: Sequence[Job],
    named: Named,
    judge: Callable[[Job | None, str | None, Named], BuildReport],
) -> dict[str, BuildReport]:
    """Return the judged report of each SKU.

    ``judge`` makes one from the job that measured, or from why nothing was measured, and from the
    artifacts that gates name, each as it was on that SKU.
    """
    found = {}
    for job in jobs:
        done = job.state is JobState.SUCCEEDED
        there = {digest: _as_on(row, job.sku or "") for digest, row in named.items()}
        why = None if done else why_not(job)
        found[job.sku or ""] = judge(job if done else None, why, there)
    return found


def why_not(job: Job) -> str:
    """Say why the engine was not measured on a job's SKU."""
    failure = job.failure or {}
    if job.state is JobState.EXPIRED:
        waited = failure.get("code") == "no_node_in_time"
        limit = "as long as the build would wait" if waited else "within the pending limit"
        return f"not measured on {job.sku}: no node took it {limit}"
    told = f": {failure['message']} [{failure['code']}]" if failure else ""
    return f"not measured on {job.sku}: {job.state}{told}"


def _as_on(report: BuildReport | str, sku: str) -> BuildReport | str:
    """Return a report as it is of one SKU, if it has several."""
    if isinstance(report, str) or report.portability is None:
        return report
    row = next((row for row in report.portability.skus if row.sku == sku), None)
    if row is None:
        return f"it was not measured on {sku}"
    if row.reason is not None:
        return f"it was {row.reason}"
    told = {
        "latency": row.latency,
        "accuracy": row.accuracy,
        "accuracy_reason": row.accuracy_reason,
        "measure_machine": row.machine,
    }
    return report.model_copy(update=told)


def together(judged: Judged, gates: Sequence[Gate], compiled_on: Machine | None) -> BuildReport:
    """Return the report of the reference, with each SKU beside it and the worst verdicts.

    ``gates``: those that apply, in the order of each report's verdicts.
    """
    built = None if compiled_on is None or compiled_on.device == "cpu" else compiled_on.device
    sku = None if built is None else sku_of(built)
    measured = [name for name, report in judged.items() if report.measured]
    reference = sku if sku in measured else measured[0]
    main = judged[reference]
    told: dict[str, Any] = {
        "gates": [_worst_of(gate, number, judged) for number, gate in enumerate(gates)],
        "precision_verdict": _worst_verdict(judged),
        "portability": PortabilityReport(
            compiled_on=sku,
            reference=reference,
            skus=[_row(name, report, main.latency) for name, report in judged.items()],
        ),
    }
    return main.model_copy(update=told)


def _row(sku: str, report: BuildReport, reference: Sequence[LatencyReport]) -> SkuReport:
    return SkuReport(
        sku=sku,
        reason=report.reason,
        machine=report.measure_machine,
        latency=report.latency,
        ratios=[
            None if other is None else row.end_to_end_ms.p50 / other.end_to_end_ms.p50
            for row, other in side_by_side(report.latency, reference)
        ],
        accuracy=report.accuracy,
        accuracy_reason=report.accuracy_reason,
        runtime_cache=report.runtime_cache,
        gates=report.gates,
        precision_verdict=report.precision_verdict,
    )


def _worst_of(gate: Gate, number: int, judged: Judged) -> GateVerdict:
    """Return the worst verdict on a gate; what is no SKU's own is said once."""
    rows = {sku: report.gates[number] for sku, report in judged.items()}
    if judged_at_compile(gate):
        return next(iter(rows.values()))
    sku, worst = min(rows.items(), key=lambda row: _goodness(gate, row[1]))
    missed = [name for name, row in rows.items() if not row.met]
    also = [name for name in missed if name != sku]
    place = f"on {sku}, the worst of {len(rows)} SKUs"
    place += f"; missed on {', '.join(also)}, too" if also else ""
    said = worst.reason or ""
    if worst.value is None and not worst.met and sku in said:
        place = f"missed on {', '.join(also)}, too" if also else ""
    return worst.model_copy(update={"reason": "; ".join(row for row in (said, place) if row)})


def _goodness(gate: Gate, verdict: GateVerdict) -> tuple[bool, bool, float]:
    """Order verdicts: what was measured and missed comes first, then what was not measured."""
    value = verdict.value
    if value is None:
        return verdict.met, True, math.inf
    if verdict.missed_by is not None:
        return verdict.met, False, -verdict.missed_by
    below = math.inf if gate.at_least is None else value - gate.at_least
    above = math.inf if gate.at_most is None else gate.at_most - value
    return verdict.met, False, -value if gate.against else min(below, above)


def _worst_verdict(judged: Judged) -> VerdictReport | None:
    rows = {sku: report.precision_verdict for sku, report in judged.items()}
    told = {sku: row for sku, row in rows.items() if row is not None}
    if not told:
        return None
    sku, worst = min(told.items(), key=lambda row: _WORST.index(row[1].verdict))
    others = [f"{name}: {row.verdict or 'unknown'}" for name, row in told.items() if name != sku]
    reason = f"on {sku}: {worst.reason}" + (f" ({', '.join(others)})" if others else "")
    held = any(row.held_back for row in told.values())
    return worst.model_copy(update={"reason": reason, "held_back": held})
