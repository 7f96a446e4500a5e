"""Who has revoked an artifact, when, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("artifacts", sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("artifacts", sa.Column("revoked_by", sa.Text(), nullable=True))
    op.add_column("artifacts", sa.Column("revoked_reason", sa.Text(), nullable=True))


def downgrade() -> None:
    for name in ("revoked_reason", "revoked_by", "revoked_at"):
        op.drop_column("artifacts", name)
