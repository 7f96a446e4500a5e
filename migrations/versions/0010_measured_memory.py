"""What memory jobs took, what is known of one before it runs; since when no upload is read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "peaks",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("likeness", sa.Text(), nullable=False),
        sa.Column("sizes_digest", sa.Text(), nullable=False),
        sa.Column("sizes", postgresql.JSONB(), nullable=False),
        sa.Column("peak_bytes", sa.BigInteger(), nullable=False),
        sa.Column("enough", sa.Boolean(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column(
            "measured_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_peaks_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "likeness", "sizes_digest", name=op.f("pk_peaks")),
    )
    op.add_column("uploads", sa.Column("unread_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("peak_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "peak_bytes")
    op.drop_column("uploads", "unread_since")
    op.drop_table("peaks")
