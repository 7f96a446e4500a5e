"""The files of an artifact, by its manifest and by what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.errors import FarmError
from enginefarm.manifest import PAGE_TYPE, REPORT_TYPE, read_manifest
from tasks.farm import Farm
from tests.integration.tasks.life.snapshot import AnyRow


def files_of(artifact: AnyRow, *, kept: bool = True) -> dict[str, int]:
    """Return the digests and sizes of an artifact's manifest and of what is kept of its files.

    If not ``kept``, of those files that are not.
    """
    manifest = read_manifest(artifact.manifest)
    named = {row.digest: row.size for row in [manifest.config, *manifest.layers]}
    engines = {
        row.digest for row in manifest.layers if row.media_type not in {REPORT_TYPE, PAGE_TYPE}
    }
    gone = engines if artifact.engine_expired_at is not None else set()
    if not kept:
        return {digest: named[digest] for digest in gone}
    left = {digest: size for digest, size in named.items() if digest not in gone}
    return {artifact.digest: len(artifact.manifest)} | left


def unreadable(farm: Farm, artifact: AnyRow) -> Iterator[str]:
    """Say which of an artifact's files the bucket does not have as they were made."""
    for digest, size in files_of(artifact).items():
        try:
            farm.objects.confirm(digest, size)
        except FarmError as error:
            yield f"artifact {artifact.digest}: {error}"
