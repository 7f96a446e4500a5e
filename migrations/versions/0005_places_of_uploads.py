"""Which bytes an attempt was given a place for; the credential before a node's newest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "attempts",
        sa.Column("places", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    op.add_column("nodes", sa.Column("former_sha256", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("nodes", "former_sha256")
    op.drop_column("attempts", "places")
