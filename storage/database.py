"""Connections to PostgreSQL; one transaction per request or step, committed at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from enginefarm.errors import InvalidRequest, Unavailable

__all__ = ["Database", "Session", "now"]


def now() -> datetime:
    """Return the time, in UTC; the only clock that rows are written with."""
    return datetime.now(UTC)


# A server that vanished is noticed in half a minute; a process that stands still in the middle
# of a transaction loses it, instead of keeping everybody else from its rows.
_LIMITS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "enginefarm",
    "options": "-c idle_in_transaction_session_timeout=60s -c statement_timeout=30s",
}


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
            connect_args=_LIMITS,
        )

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Give a session; commit when the block ends well, roll back when it does not.

        Raises:
            Unavailable: the database is away, has no connection left or gave up waiting for a
                lock or a statement (code ``database_away``). Whether a commit that was under way
                has happened is not known then: what is repeated must be safe to repeat.
            InvalidRequest: what was to be written cannot be kept (code ``not_storable``).
        """
        try:
            with Session(self._engine, expire_on_commit=False) as session, session.begin():
                yield session
        except (OperationalError, PoolTimeout) as error:
            raise _away(error) from error
        except DataError as error:
            raise _not_storable(error) from error
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


def _not_storable(error: DataError) -> InvalidRequest:
    return InvalidRequest(
        "The request holds what the database cannot keep.",
        code="not_storable",
        why=f"{str(error.orig).splitlines()[0]}." if error.orig is not None else "",
        fix="Send text without NUL characters, and numbers within their range.",
    )


def _away(error: Exception) -> Unavailable:
    # The driver's own error is the telling one: ConnectionTimeout, DeadlockDetected, ...
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return Unavailable(
        "The database does not answer.",
        code="database_away",
        why=f"{type(cause).__name__}.",
        fix="Try again in a moment.",
    )
