"""Which jobs build the twin that an engine in another precision is measured against."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("twin", sa.String(length=16), nullable=True))
    # A twin has a check and a compile of its own: a stage may come twice, a place may not.
    op.drop_constraint(op.f("uq_jobs_build_id_target_stage"), "jobs", type_="unique")
    op.create_unique_constraint(
        op.f("uq_jobs_build_id_target_position"), "jobs", ["build_id", "target", "position"]
    )


def downgrade() -> None:
    op.execute("DELETE FROM outbox USING jobs WHERE job_id = jobs.id AND twin IS NOT NULL")
    op.execute("DELETE FROM attempts USING jobs WHERE job_id = jobs.id AND twin IS NOT NULL")
    op.execute("DELETE FROM jobs WHERE twin IS NOT NULL")
    op.drop_constraint(op.f("uq_jobs_build_id_target_position"), "jobs", type_="unique")
    op.create_unique_constraint(
        op.f("uq_jobs_build_id_target_stage"), "jobs", ["build_id", "target", "stage"]
    )
    op.drop_column("jobs", "twin")
