"""Transactions on the real database."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from enginefarm.errors import NotFound, Unavailable
from storage.database import Database, Session
from storage.models import Tenant

pytestmark = pytest.mark.services


@pytest.fixture
def small(postgres_url: str) -> Iterator[Database]:
    """Return a pool of one connection that does not wait for it."""
    database = Database(postgres_url, pool_size=1)
    pool = database._engine.pool
    pool._timeout = 0  # type: ignore[attr-defined]  # not ten seconds
    pool._max_overflow = 0  # type: ignore[attr-defined]
    yield database
    database.dispose()


def names(database: Database) -> list[str]:
    with database.transaction() as session:
        return list(session.scalars(text("SELECT name FROM tenants ORDER BY name")))


def test_a_block_that_ends_well_is_committed(database: Database) -> None:
    with database.transaction() as session:
        session.add(Tenant(id="ten_1", name="acme"))

    assert names(database) == ["acme"]


def test_an_error_of_the_farm_rolls_back_and_comes_out_as_it_is(database: Database) -> None:
    def fail(session: Session) -> None:
        session.add(Tenant(id="ten_1", name="acme"))
        session.flush()
        raise NotFound("no such thing")

    with pytest.raises(NotFound, match="no such thing"), database.transaction() as session:
        fail(session)

    assert names(database) == []


def test_a_row_that_may_not_be_is_not_the_databases_absence(database: Database) -> None:
    with pytest.raises(IntegrityError), database.transaction() as session:
        session.add_all([Tenant(id="ten_1", name="acme"), Tenant(id="ten_2", name="acme")])

    assert names(database) == []


def test_rows_can_be_read_after_their_transaction(database: Database) -> None:
    with database.transaction() as session:
        row = Tenant(id="ten_1", name="acme")
        session.add(row)

    assert row.name == "acme"


def test_a_database_that_is_away_is_said_to_be_away() -> None:
    database = Database("postgresql+psycopg://nobody:secret@127.0.0.1:1/none")

    with pytest.raises(Unavailable) as caught:
        database.ping()

    assert caught.value.code == "database_away"
    assert "secret" not in str(caught.value)


def test_a_connection_lost_in_the_middle_is_said_to_be_lost_and_the_next_one_works(
    database: Database,
) -> None:
    def lose(session: Session) -> None:
        session.add(Tenant(id="ten_1", name="acme"))
        session.flush()
        mine = session.scalar(text("SELECT pg_backend_pid()"))
        with database.transaction() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": mine})
        session.execute(text("SELECT 1"))

    with pytest.raises(Unavailable) as caught, database.transaction() as session:
        lose(session)

    assert caught.value.code == "database_away"
    assert names(database) == []


def test_a_connection_that_died_in_the_pool_is_replaced(
    small: Database, database: Database
) -> None:
    with small.transaction() as session:
        died = session.scalar(text("SELECT pg_backend_pid()"))
    with database.transaction() as other:
        other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": died})

    with small.transaction() as session:
        assert session.scalar(text("SELECT pg_backend_pid()")) != died


def test_no_free_connection_is_said_to_be_the_databases_absence(small: Database) -> None:
    with small.transaction() as session:
        session.execute(text("SELECT 1"))

        with pytest.raises(Unavailable) as caught:
            small.ping()

    assert caught.value.code == "database_away"


def wait_too_long(session: Session) -> None:
    session.execute(text("SET LOCAL lock_timeout = '1ms'"))
    session.execute(text("LOCK TABLE tenants"))


def run_too_long(session: Session) -> None:
    session.execute(text("SET LOCAL statement_timeout = '1ms'"))
    session.execute(text("SELECT pg_sleep(10)"))


@pytest.mark.parametrize(
    ("work", "why"), [(wait_too_long, "LockNotAvailable"), (run_too_long, "QueryCanceled")]
)
def test_the_reason_names_what_the_database_said(
    database: Database, work: Callable[[Session], None], why: str
) -> None:
    with database.transaction() as holder:
        holder.execute(text("LOCK TABLE tenants"))

        with pytest.raises(Unavailable) as caught, database.transaction() as session:
            work(session)

    assert (caught.value.code, caught.value.why) == ("database_away", f"{why}.")


def test_a_process_that_stands_still_cannot_keep_its_transaction_for_ever(
    database: Database,
) -> None:
    with database.transaction() as session:
        limit = session.scalar(text("SHOW idle_in_transaction_session_timeout"))

    assert limit == "1min"
