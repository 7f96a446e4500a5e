"""Connections to PostgreSQL; one transaction per request or step, committed at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from enginefarm.errors import Unavailable

__all__ = ["Database", "Session", "now"]


def now() -> datetime:
    """Return the time, in UTC; the only clock that rows are written with."""
    return datetime.now(UTC)


class Database:
    """A pool of connections."""

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        """Prepare the pool; nothing is connected yet."""
        self._engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 5},
        )

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Give a session; commit when the block ends well, roll back when it does not.

        Raises:
            Unavailable: the database is away or has no connection left (code ``database_away``).
        """
        try:
            with Session(self._engine, expire_on_commit=False) as session, session.begin():
                yield session
        except (OperationalError, PoolTimeout) as error:
            raise _away(error) from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise _away(error) from error
            raise

    def ping(self) -> None:
        """Ask the database for an answer."""
        with self.transaction() as session:
            session.execute(text("SELECT 1"))

    def dispose(self) -> None:
        """Close the pool."""
        self._engine.dispose()


def _away(error: Exception) -> Unavailable:
    return Unavailable(
        "The database does not answer.",
        code="database_away",
        why=f"{type(error).__name__}.",
        fix="Nothing was changed; try again in a moment.",
    )
