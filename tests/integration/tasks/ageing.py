"""Time passes without waiting: every moment that the rows hold moves into the past."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import DateTime, Table, text

from storage.models import Base
from tasks.farm import Farm


def let_pass(farm: Farm, seconds: float, tables: Iterable[Table] | None = None) -> None:
    """Let everything that the rows tell of have been so much earlier."""
    with farm.database.transaction() as session:
        for table in Base.metadata.sorted_tables if tables is None else tables:
            dated = [col.name for col in table.columns if isinstance(col.type, DateTime)]
            if dated:
                moved = ", ".join(f"{name} = {name} - :span * interval '1 s'" for name in dated)
                session.execute(text(f"UPDATE {table.name} SET {moved}"), {"span": seconds})  # noqa: S608 - our own names
