"""How migrations run: one at a time, each in its own transaction, never waiting long for a lock."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, pool, text

from storage.models import Base

_TURN = 0x656E67666D  # any number all migrators agree on: they take turns on this advisory lock


def _run() -> None:
    engine = create_engine(context.config.attributes["url"], poolclass=pool.NullPool)
    with engine.connect() as connection:
        connection.execute(text("SET statement_timeout = '10min'"))
        connection.execute(text("SELECT pg_advisory_lock(:turn)"), {"turn": _TURN})
        # Only now: waiting for one's turn may take longer than waiting for a table.
        connection.execute(text("SET lock_timeout = '5s'"))
        connection.commit()
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            transaction_per_migration=True,
            compare_type=True,
            compare_server_default=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.execute(text("SELECT pg_advisory_unlock(:turn)"), {"turn": _TURN})
        connection.commit()
    engine.dispose()


_run()
