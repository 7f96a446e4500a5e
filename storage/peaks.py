"""What memory jobs took, by what they are like and at which sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import and_, not_, or_, select
from sqlalchemy.dialects.postgresql import insert

from storage.database import Session, now
from storage.models import Peak

MOST = 200
"""How many sets of sizes are looked at: the newest."""


def keep(session: Session, peak: Peak) -> None:
    """Keep a measurement: the least with which a job succeeded, or the most that was too little.

    One that succeeded goes before all that failed.
    """
    values = {
        "sizes": peak.sizes,
        "peak_bytes": peak.peak_bytes,
        "enough": peak.enough,
        "build_id": peak.build_id,
        "measured_at": now(),
    }
    whose = {
        "tenant_id": peak.tenant_id,
        "likeness": peak.likeness,
        "sizes_digest": peak.sizes_digest,
    }
    made = insert(Peak).values(**whose, **values)
    new = made.excluded
    better = and_(new.enough, or_(not_(Peak.enough), new.peak_bytes < Peak.peak_bytes))
    worse = and_(not_(new.enough), not_(Peak.enough), new.peak_bytes > Peak.peak_bytes)
    session.execute(
        made.on_conflict_do_update(
            index_elements=[Peak.tenant_id, Peak.likeness, Peak.sizes_digest],
            set_=values,
            where=or_(better, worse),
        )
    )


def like(session: Session, tenant_id: str, likenesses: Collection[str]) -> Sequence[Peak]:
    """Return what was measured of jobs that are like these."""
    return session.scalars(
        select(Peak)
        .where(Peak.tenant_id == tenant_id, Peak.likeness.in_(likenesses))
        .order_by(Peak.measured_at.desc())
        .limit(MOST)
    ).all()
