"""When parts of the control plane were heard last; a node's failures to reach the bucket."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "pulses",
        sa.Column("part", sa.String(length=16), nullable=False),
        sa.Column("beat_at", moment, server_default=sa.text("now()"), nullable=False),
        sa.Column("away_from", moment, nullable=True),
        sa.Column("back_at", moment, nullable=True),
        sa.PrimaryKeyConstraint("part", name=op.f("pk_pulses")),
    )
    op.add_column(
        "nodes",
        sa.Column("bucket_faults", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )


def downgrade() -> None:
    op.drop_column("nodes", "bucket_faults")
    op.drop_table("pulses")
