"""What a node was told, results that are withdrawn, and the files of each artifact."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("lease_sha256", sa.LargeBinary(), nullable=True))
    op.add_column("attempts", sa.Column("answered", sa.String(length=16), nullable=True))
    op.add_column("jobs", sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "artifact_files",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("blob_digest", sa.Text(), nullable=False),
        sa.Column("artifact_digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "artifact_digest"],
            ["artifacts.tenant_id", "artifacts.digest"],
            name=op.f("fk_artifact_files_tenant_id_artifact_digest"),
        ),
        sa.PrimaryKeyConstraint(
            "tenant_id", "blob_digest", "artifact_digest", name=op.f("pk_artifact_files")
        ),
    )
    # What was published before names its files in its manifest.
    op.execute(
        """
        INSERT INTO artifact_files (tenant_id, artifact_digest, blob_digest)
        SELECT DISTINCT a.tenant_id, a.digest, named.digest
        FROM artifacts AS a,
             LATERAL (SELECT convert_from(a.manifest, 'UTF8')::jsonb AS said) AS m,
             LATERAL (
                 SELECT m.said -> 'config' ->> 'digest' AS digest
                 UNION ALL
                 SELECT layer ->> 'digest' FROM jsonb_array_elements(m.said -> 'layers') AS layer
             ) AS named
        """
    )


def downgrade() -> None:
    op.drop_table("artifact_files")
    op.drop_column("jobs", "withdrawn_at")
    op.drop_column("attempts", "answered")
    op.drop_column("attempts", "lease_sha256")
