"""Decide whether a signed statement vouches for a comparison. Pure.

Envelope, signature and key as for an artifact (:mod:`enginefarm.provenance`); the statement is
another one, so neither can be taken for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from enginefarm.attestation import FETCH_AGAIN, read_body
from enginefarm.comparison_report import ComparisonReport
from enginefarm.errors import VerificationFailed
from enginefarm.provenance import require_speaks_for, signed_payload
from enginefarm.trust_views import TrustKey

PREDICATE_TYPE = "https://enginefarm.invalid/predicates/comparison/v1"


class _Builder(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str


class _Predicate(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    builder: _Builder
    report: ComparisonReport


def verify_comparison(
    bundle: bytes, keys: Sequence[TrustKey], *, at: datetime | None = None
) -> ComparisonReport:
    """Return the report in ``bundle`` if a usable key of ``keys`` has signed it.

    ``at`` is the time at which the key must be usable; absent: now.

    Raises:
        VerificationFailed: as :func:`enginefarm.provenance.verify_bundle`, and
            ``subject_missing``: it is not about the two artifacts that it compares.
    """
    payload, key = signed_payload(bundle, keys, at=at)
    body = read_body(payload)
    if body.predicate_type != PREDICATE_TYPE:
        raise VerificationFailed(
            f"The signed statement says {body.predicate_type[:80]!r}.",
            code="predicate_type_wrong",
            why=f"Only {PREDICATE_TYPE} says which of two artifacts is faster.",
            fix=FETCH_AGAIN,
        )
    try:
        told = _Predicate.model_validate(body.predicate)
    except ValidationError as error:
        raise VerificationFailed(
            "The signed statement cannot be used.",
            code="statement_invalid",
            why=f"Its report is none that this client reads: {str(error).splitlines()[0]}.",
            fix="Bring the client to the farm's version.",
        ) from error
    require_speaks_for(told.builder.id, key)
    about = {f"sha256:{row.digest.sha256}" for row in body.subject}
    missing = {told.report.first.artifact, told.report.second.artifact} - about
    if missing:
        raise VerificationFailed(
            f"The signed statement is not about {min(missing)}.",
            code="subject_missing",
            why="Its report compares what it does not name as its subject.",
            fix=FETCH_AGAIN,
        )
    return told.report
