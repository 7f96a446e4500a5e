"""Shares and limits of tenants, bumped builds, faults of nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tenants", sa.Column("weight", sa.Float(), server_default=sa.text("1"), nullable=False)
    )
    op.add_column("tenants", sa.Column("max_running", sa.Integer(), nullable=True))
    op.add_column("tenants", sa.Column("max_unfinished", sa.Integer(), nullable=True))
    op.add_column("tenants", sa.Column("max_bytes", sa.BigInteger(), nullable=True))
    op.add_column("builds", sa.Column("api_key_id", sa.Text(), nullable=True))
    op.add_column("builds", sa.Column("bumped_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "nodes", sa.Column("faults", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("nodes", sa.Column("note", sa.Text(), nullable=True))
    op.create_index("ix_attempts_finished_at", "attempts", ["finished_at"])
    op.create_index(
        "ix_attempts_unfinished",
        "attempts",
        ["job_id"],
        postgresql_where=sa.text("finished_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_attempts_unfinished", table_name="attempts")
    op.drop_index("ix_attempts_finished_at", table_name="attempts")
    op.drop_column("nodes", "note")
    op.drop_column("nodes", "faults")
    op.drop_column("builds", "bumped_at")
    op.drop_column("builds", "api_key_id")
    op.drop_column("tenants", "max_bytes")
    op.drop_column("tenants", "max_unfinished")
    op.drop_column("tenants", "max_running")
    op.drop_column("tenants", "weight")
