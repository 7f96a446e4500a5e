"""Uploads in parts, and the digests that their parts were announced with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

STATES = ("open", "verifying", "done", "failed", "cancelled", "abandoned")


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "uploads",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Enum(*STATES, native_enum=False, length=16), nullable=False),
        sa.Column("files", postgresql.JSONB(), nullable=False),
        sa.Column("transfers", postgresql.JSONB(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("verified_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("failure", postgresql.JSONB(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("leased_until", moment, nullable=True),
        sa.Column("cleared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("created_at", moment, server_default=sa.text("now()"), nullable=False),
        sa.Column("touched_at", moment, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_uploads_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index(op.f("ix_uploads_tenant_id"), "uploads", ["tenant_id"])
    op.create_table(
        "upload_parts",
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("file", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["upload_id"],
            ["uploads.id"],
            name=op.f("fk_upload_parts_upload_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("upload_id", "file", "number", name=op.f("pk_upload_parts")),
    )


def downgrade() -> None:
    op.drop_table("upload_parts")
    op.drop_index(op.f("ix_uploads_tenant_id"), table_name="uploads")
    op.drop_table("uploads")
