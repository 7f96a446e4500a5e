"""Insert the rows of one build, and nothing else: the floor under accepting a build."""

from __future__ import annotations

from sqlalchemy import insert, select

from storage.database import Database
from storage.ids import new_id
from storage.models import Build, Event, Job


def insert_like(database: Database, build_id: str) -> None:
    """Insert copies of a build's rows (build, jobs, events) in one transaction."""
    with database.transaction() as session:
        row = session.execute(select(Build.__table__).where(Build.id == build_id)).mappings().one()
        jobs = session.execute(select(Job.__table__).where(Job.build_id == build_id)).mappings()
        events = session.execute(select(Event.__table__).where(Event.build_id == build_id))
        copy = dict(row) | {"id": new_id("bld"), "idempotency_key": None}
        session.execute(insert(Build), [copy])
        session.execute(
            insert(Job),
            [dict(job) | {"id": new_id("job"), "build_id": copy["id"]} for job in jobs],
        )
        session.execute(
            insert(Event),
            [dict(event) | {"build_id": copy["id"], "job_id": None} for event in events.mappings()],
        )
