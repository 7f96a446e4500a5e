"""Searches for a precision, and the candidates they have tried."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_STATES = ("running", "succeeded", "unmet", "failed", "cancelled")


def upgrade() -> None:
    op.create_table(
        "searches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(*_STATES, name="searchstate", native_enum=False, length=16),
            nullable=False,
        ),
        sa.Column("model_digest", sa.Text(), nullable=False),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("spec", postgresql.JSONB(), nullable=False),
        sa.Column("api_key_id", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("chosen", sa.Integer(), nullable=True),
        sa.Column("verdict", sa.Text(), server_default="", nullable=False),
        sa.Column("notes", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_searches_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_searches")),
        sa.UniqueConstraint(
            "tenant_id", "idempotency_key", name=op.f("uq_searches_tenant_id_idempotency_key")
        ),
    )
    op.create_index("ix_searches_tenant_id_id", "searches", ["tenant_id", "id"])
    op.create_index(
        "ix_searches_running",
        "searches",
        ["id"],
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "candidates",
        sa.Column("search_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=True),
        sa.Column("precision", postgresql.JSONB(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("outcome", postgresql.JSONB(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["build_id"], ["builds.id"], name=op.f("fk_candidates_build_id_builds")
        ),
        sa.ForeignKeyConstraint(
            ["search_id"], ["searches.id"], name=op.f("fk_candidates_search_id_searches")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_candidates_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("search_id", "number", name=op.f("pk_candidates")),
    )


def downgrade() -> None:
    op.drop_table("candidates")
    op.drop_index("ix_searches_running", table_name="searches")
    op.drop_index("ix_searches_tenant_id_id", table_name="searches")
    op.drop_table("searches")
