"""Find the results of twins by their age: the rule that removes them looks for the oldest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_jobs_kept_twins",
        "jobs",
        ["finished_at", "id"],
        postgresql_where=sa.text(
            "twin IS NOT NULL AND state = 'succeeded' AND cached_from IS NULL"
            " AND result_expired_at IS NULL"
        ),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_kept_twins", table_name="jobs")
