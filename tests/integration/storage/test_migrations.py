"""The migrations on a real PostgreSQL: they make the rows, once, whoever starts first."""

from __future__ import annotations

import subprocess
import sys

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, pool, text

from storage import migrate
from storage.models import Base


@pytest.fixture
def empty_url(bare_postgres_url: str) -> str:
    """Return the URL of a database that nothing was ever made in."""
    engine = create_engine(bare_postgres_url, poolclass=pool.NullPool)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return bare_postgres_url


def tables(url: str) -> set[str]:
    return set(inspect(create_engine(url, poolclass=pool.NullPool)).get_table_names())


def test_there_is_one_head() -> None:
    script = ScriptDirectory.from_config(migrate.configuration("postgresql://nowhere"))
    assert len(script.get_heads()) == 1


def test_the_migrations_make_exactly_the_rows_from_nothing(empty_url: str) -> None:
    assert tables(empty_url) == set()
    migrate.upgrade(empty_url)
    migrate.check(empty_url)
    assert tables(empty_url) - {"alembic_version"} == set(Base.metadata.tables)


def test_migrating_again_changes_nothing(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    migrate.upgrade(empty_url)
    migrate.check(empty_url)


def test_a_table_that_no_migration_made_is_noticed(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    engine = create_engine(empty_url, poolclass=pool.NullPool)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE jobs DROP COLUMN note"))
    with pytest.raises(Exception, match="New upgrade operations detected"):
        migrate.check(empty_url)


def test_processes_that_start_together_take_turns(empty_url: str) -> None:
    program = "import sys; from storage import migrate; migrate.upgrade(sys.argv[1])"
    command = [sys.executable, "-c", program, empty_url]
    together = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in together:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    migrate.check(empty_url)
