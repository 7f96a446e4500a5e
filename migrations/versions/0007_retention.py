"""What was removed and by which rule, when a model was last used, which bytes are lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_MOMENTS = (
    ("artifacts", "engine_expired_at"),
    ("attempts", "log_expired_at"),
    ("blobs", "lost_at"),
    ("builds", "events_expired_at"),
    ("builds", "results_expired_at"),
    ("jobs", "result_expired_at"),
)
_USED = ("models", "datasets")


def upgrade() -> None:
    for table, column in _MOMENTS:
        op.add_column(table, sa.Column(column, sa.DateTime(timezone=True), nullable=True))
    for table in _USED:
        moment = sa.DateTime(timezone=True)
        op.add_column(
            table, sa.Column("used_at", moment, server_default=sa.text("now()"), nullable=False)
        )
        op.create_index(f"ix_{table}_used_at", table, ["used_at"])
    op.create_table(
        "expired",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column(
            "expired_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_expired_tenant_id_tenants")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "digest", "kind", name=op.f("pk_expired")),
    )
    _index_what_is_due()
    _index_what_refers()


def _index_what_is_due() -> None:
    op.create_index(
        "ix_artifacts_quarantined",
        "artifacts",
        ["created_at"],
        postgresql_where=sa.text("state = 'quarantined' AND engine_expired_at IS NULL"),
    )
    op.create_index(
        "ix_attempts_with_log",
        "attempts",
        ["finished_at"],
        postgresql_where=sa.text("log_expired_at IS NULL"),
    )
    op.create_index(
        "ix_builds_with_events",
        "builds",
        ["finished_at"],
        postgresql_where=sa.text("events_expired_at IS NULL"),
    )
    op.create_index(
        "ix_builds_unpublished",
        "builds",
        ["finished_at"],
        postgresql_where=sa.text(
            "state IN ('failed', 'cancelled', 'partial') AND results_expired_at IS NULL"
        ),
    )
    op.create_index(
        "ix_outbox_sent_at",
        "outbox",
        ["sent_at"],
        postgresql_where=sa.text("sent_at IS NOT NULL"),
    )


def _index_what_refers() -> None:
    op.create_index(
        "ix_artifacts_tenant_id_model_digest", "artifacts", ["tenant_id", "model_digest"]
    )
    op.create_index(
        "ix_attempts_log_digest",
        "attempts",
        ["log_digest"],
        postgresql_where=sa.text("log_expired_at IS NULL AND log_digest IS NOT NULL"),
    )
    op.create_index("ix_blobs_digest_tenant_id", "blobs", ["digest", "tenant_id"])
    op.create_index("ix_builds_tenant_id_model_digest", "builds", ["tenant_id", "model_digest"])
    op.create_index(
        "ix_builds_tenant_id_evaluation",
        "builds",
        ["tenant_id", sa.text("(spec ->> 'evaluation')")],
    )
    op.create_index("ix_jobs_cached_from", "jobs", ["cached_from"])
    op.create_index(
        "ix_jobs_outputs",
        "jobs",
        [sa.literal_column("(result -> 'outputs')").label("outputs")],
        postgresql_using="gin",
        postgresql_ops={"outputs": "jsonb_path_ops"},
        postgresql_where=sa.text("state = 'succeeded' AND result_expired_at IS NULL"),
    )
    op.create_index(
        "ix_models_files",
        "models",
        ["files"],
        postgresql_using="gin",
        postgresql_ops={"files": "jsonb_path_ops"},
    )


def downgrade() -> None:
    for table, names in {
        "artifacts": ("ix_artifacts_quarantined", "ix_artifacts_tenant_id_model_digest"),
        "attempts": ("ix_attempts_with_log", "ix_attempts_log_digest"),
        "blobs": ("ix_blobs_digest_tenant_id",),
        "builds": (
            "ix_builds_with_events",
            "ix_builds_unpublished",
            "ix_builds_tenant_id_model_digest",
            "ix_builds_tenant_id_evaluation",
        ),
        "jobs": ("ix_jobs_cached_from", "ix_jobs_outputs"),
        "models": ("ix_models_files",),
        "outbox": ("ix_outbox_sent_at",),
    }.items():
        for name in names:
            op.drop_index(name, table_name=table)
    op.drop_table("expired")
    for table in _USED:
        op.drop_index(f"ix_{table}_used_at", table_name=table)
        op.drop_column(table, "used_at")
    for table, column in _MOMENTS:
        op.drop_column(table, column)
