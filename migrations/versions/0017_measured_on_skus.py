"""Which benchmark measures an engine on which SKU of its architecture."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("sku", sa.String(length=64), nullable=True))


def downgrade() -> None:
    # A target has one benchmark again. The rings and attempts of the others go with them.
    op.execute("DELETE FROM outbox USING jobs WHERE job_id = jobs.id AND sku IS NOT NULL")
    op.execute("DELETE FROM attempts USING jobs WHERE job_id = jobs.id AND sku IS NOT NULL")
    op.execute("DELETE FROM jobs WHERE sku IS NOT NULL")
    op.drop_column("jobs", "sku")
