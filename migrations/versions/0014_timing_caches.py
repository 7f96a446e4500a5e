"""Timing caches of TensorRT by namespace, their snapshots, and which attempt was given which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_MOMENT = postgresql.TIMESTAMP(timezone=True)
_NOUGHT = sa.text("0")


def upgrade() -> None:
    op.create_table(
        "timing_caches",
        sa.Column("tenant_id", sa.Text(), sa.ForeignKey("tenants.id"), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("parts", postgresql.JSONB(), nullable=False),
        sa.Column("generation", sa.Integer(), server_default=_NOUGHT, nullable=False),
        sa.Column("current", sa.Integer()),
        sa.Column("pinned", sa.Integer()),
        sa.Column("floor", sa.Integer(), server_default=_NOUGHT, nullable=False),
        sa.Column("builds", sa.BigInteger(), server_default=_NOUGHT, nullable=False),
        sa.Column("hits", sa.BigInteger(), server_default=_NOUGHT, nullable=False),
        sa.Column("created_at", _MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("updated_at", _MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "namespace"),
    )
    op.create_table(
        "timing_snapshots",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("why", sa.Text()),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("created_at", _MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "namespace", "generation"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "namespace"], ["timing_caches.tenant_id", "timing_caches.namespace"]
        ),
    )
    op.create_index(
        "ix_timing_snapshots_tenant_id_digest", "timing_snapshots", ["tenant_id", "digest"]
    )
    op.create_table(
        "timing_uses",
        sa.Column("job_id", sa.Text(), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Text(), sa.ForeignKey("tenants.id"), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer()),
        sa.Column("digest", sa.Text()),
        sa.Column("refused", sa.Text()),
        sa.Column("hits", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
    )


def downgrade() -> None:
    op.drop_table("timing_uses")
    op.drop_table("timing_snapshots")
    op.drop_table("timing_caches")
