"""Bytes that no row refers to, and since when that is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "garbage",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column(
            "marked_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_garbage")),
    )


def downgrade() -> None:
    op.drop_table("garbage")
