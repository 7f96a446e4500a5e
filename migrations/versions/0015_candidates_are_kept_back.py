"""Builds and artifacts that are candidates of a search, and under which profile each is tried."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("builds", "artifacts"):
        op.add_column(table, sa.Column("search_id", sa.Text(), nullable=True))
        op.create_foreign_key(
            op.f(f"fk_{table}_search_id_searches"), table, "searches", ["search_id"], ["id"]
        )
    op.add_column("candidates", sa.Column("profile", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("candidates", "profile")
    for table in ("artifacts", "builds"):
        op.drop_constraint(op.f(f"fk_{table}_search_id_searches"), table, type_="foreignkey")
        op.drop_column(table, "search_id")
