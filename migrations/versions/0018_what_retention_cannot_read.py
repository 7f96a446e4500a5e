"""How many rows each rule of retention could not read in its last round."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "retention_rounds",
        sa.Column("rule", sa.String(length=16), nullable=False),
        sa.Column("unreadable", sa.Integer(), nullable=False),
        sa.Column("ended_at", moment, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("rule", name=op.f("pk_retention_rounds")),
    )


def downgrade() -> None:
    op.drop_table("retention_rounds")
