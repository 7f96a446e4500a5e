"""Put the report of a comparison together from finished rows, and the statement about it."""

from __future__ import annotations

from typing import Any

from enginefarm import __version__
from enginefarm.attestation import STATEMENT_TYPE
from enginefarm.comparison_proof import PREDICATE_TYPE
from enginefarm.comparison_report import ComparisonReport, ComparisonSide
from enginefarm.digest import hex_of
from enginefarm.report import Machine
from enginefarm.spec import BuildSpec
from enginefarm.target import Target
from storage.models import Artifact, Build, Job
from tasks.comparing.facts import ComparedFacts
from tasks.comparing.judging import judged_at, overall
from tasks.comparing.subjects import Both, engine_file, precision_of


def report_of(build: Build, measured: Job, both: Both) -> ComparisonReport:
    """Return what was found of two artifacts, and the verdict on the second."""
    spec = BuildSpec.model_validate(build.spec)
    result: dict[str, Any] = measured.result or {}
    facts = ComparedFacts.model_validate(result["facts"])
    rows = [judged_at(row) for row in facts.compared]
    verdict, reason = overall(rows)
    machine = result.get("machine")
    return ComparisonReport(
        target=Target.parse(measured.target),
        backend_version=measured.backend_version or "",
        first=_side(both[0]),
        second=_side(both[1]),
        rows=rows,
        verdict=verdict,
        reason=reason,
        options=spec.options.benchmark,
        data=facts.data,
        threads=facts.threads,
        machine=None if machine is None else Machine.model_validate(machine),
        versions=facts.versions,
        build=build.id,
    )


def _side(row: Artifact) -> ComparisonSide:
    engine, built = engine_file(row), row.report or {}
    return ComparisonSide(
        artifact=row.digest,
        engine=engine.digest,
        engine_bytes=engine.size,
        model=row.model_digest,
        model_name=row.model_name,
        build=row.build_id,
        backend_version=built.get("backend_version"),
        precision=precision_of(row),
    )


def statement_about(report: ComparisonReport, builder_id: str) -> dict[str, Any]:
    """Return the statement whose subjects are the two manifests; its predicate is the report."""
    sides = {"first": report.first.artifact, "second": report.second.artifact}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": hex_of(digest)}} for name, digest in sides.items()
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "builder": {"id": builder_id, "version": {"enginefarm": __version__}},
            "report": report.model_dump(mode="json"),
        },
    }
