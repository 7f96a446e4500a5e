"""An artifact as it goes over the wire, with what keeps it back. Pure."""

from __future__ import annotations

from collections.abc import Collection

from enginefarm.manifest import CONFIG_TYPE, read_manifest
from enginefarm.report import BuildReport
from enginefarm.revocation import RevocationView
from enginefarm.state import ArtifactState
from enginefarm.target import Target
from enginefarm.views import ArtifactView, FileView
from storage import models as rows
from tasks import quarantine


def artifact(
    row: rows.Artifact, lost: Collection[str] = (), search: rows.Search | None = None
) -> ArtifactView:
    """Show an artifact; its files are those its manifest names, ``lost`` the digests of some.

    ``search``: the one whose candidate it is.
    """
    manifest = read_manifest(row.manifest)
    config = manifest.config
    report = BuildReport.model_validate(row.report) if row.report else None
    files = [
        FileView(name=file.name, digest=file.digest, size=file.size, media_type=file.media_type)
        for file in manifest.layers
    ]
    files.append(
        FileView(name="config.json", digest=config.digest, size=config.size, media_type=CONFIG_TYPE)
    )
    return ArtifactView(
        digest=row.digest,
        state=row.state,
        target=Target.parse(row.target),
        model=row.model_digest,
        model_name=row.model_name,
        build=row.build_id,
        size=row.size,
        files=files,
        report=report,
        created_at=row.created_at,
        lost=[file.name for file in files if file.digest in lost],
        engine_expired_at=row.engine_expired_at,
        kept_back=_kept_back(row, report, search),
        revoked=revocation(row) if row.state is ArtifactState.REVOKED else None,
    )


def revocation(row: rows.Artifact) -> RevocationView:
    """Show who has revoked an artifact, when and why."""
    return RevocationView(
        digest=row.digest,
        target=Target.parse(row.target),
        build=row.build_id,
        reason=row.revoked_reason or "no reason was kept",
        revoked_at=row.revoked_at or row.created_at,
        revoked_by=row.revoked_by or "",
    )


def _kept_back(
    row: rows.Artifact, report: BuildReport | None, search: rows.Search | None
) -> str | None:
    """Say all that keeps an artifact back: its verdict and gates, its search, or who revoked it."""
    if row.state is ArtifactState.REVOKED:
        told = revocation(row)
        return f"revoked on {told.revoked_at:%Y-%m-%d}: {told.reason}"
    if row.state is not ArtifactState.QUARANTINED:
        return None
    said = [] if report is None else quarantine.kept_back(report)
    if search is not None:
        how = "not chosen" if search.state.terminal else "which is not over"
        said.append(f"a candidate of search {search.id}, {how}")
    return "; ".join(said) or None
