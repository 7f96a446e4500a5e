"""Which bytes an attempt need not send; events that came after their build's were removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "attempts",
        sa.Column("held", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    # A job that others waited for told its cancelled build of its end after the events had gone.
    op.execute(
        "UPDATE builds SET events_expired_at = NULL WHERE events_expired_at IS NOT NULL "
        "AND EXISTS (SELECT FROM events WHERE events.build_id = builds.id)"
    )


def downgrade() -> None:
    op.drop_column("attempts", "held")
