"""Pull an artifact.

Trust first, then the manifest by its digest, then the signature over it and over every file, then
the files, then one step that shows the folder.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from enginefarm.digest import require_digest
from enginefarm.errors import Conflict, NotFound, VerificationFailed
from enginefarm.install.cache import BlobCache, Told
from enginefarm.install.files import (
    READ_ONLY,
    exchange,
    read_small,
    require_file,
    sync_file,
    sync_folder,
    write_new,
)
from enginefarm.install.folder import (
    CONFIG,
    MANIFEST,
    MAX_CONFIG_BYTES,
    OWN_FILES,
    PROVENANCE,
    Installed,
    is_install,
    read_config,
    require_free_names,
    verify_folder,
)
from enginefarm.install.source import ArtifactSource
from enginefarm.manifest import (
    MAX_MANIFEST_BYTES,
    TITLE,
    Descriptor,
    EngineConfig,
    read_manifest,
)
from enginefarm.provenance import VerifiedArtifact, verify_artifact
from enginefarm.runtime_cache import Place, is_cache, misfit
from enginefarm.state import ArtifactState
from enginefarm.trust_views import TrustKey

_STALE_S = 3600.0
_FOLDER_MODE = 0o755


def pull(  # noqa: PLR0913 - one parameter for each thing that it needs
    source: ArtifactSource,
    digest: str,
    folder: Path,
    keys: Sequence[TrustKey],
    *,
    cache: BlobCache,
    told: Told | None = None,
    at: datetime | None = None,
    accept: Callable[[EngineConfig], None] = lambda _: None,
    place: Place | None = None,
) -> Installed:
    """Install an artifact in ``folder``, in the place of an older one if there is one.

    ``accept`` sees the verified config before the engine is fetched, and refuses it by raising.
    ``place`` is the machine that it is for: runtime caches that are of no use there are left out.

    Raises:
        VerificationFailed: something is not what was signed; ``folder`` is as it was before.
        Gone: it was revoked, and the key may only deploy (code ``artifact_revoked``).
        Conflict: ``folder`` holds something else (code ``destination_not_an_install``).
    """
    require_digest(digest)
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow a link
    _require_replaceable(folder)
    artifact = _verified(source, digest, keys, at)
    left_out = _left_out(artifact, place or Place())
    present = _already(folder, digest, keys, at)
    if present is not None and set(present.left_out) <= set(left_out):
        accept(present.config)
        return replace(present, left_out={name: left_out[name] for name in present.left_out})
    with cache.in_use():
        first = _config_file(artifact)
        small = _fetched(cache, source, first, told)
        config = read_config(read_small(small, CONFIG, MAX_CONFIG_BYTES), artifact.manifest)
        accept(config)
        wanted = (row for row in artifact.manifest.layers if row.name not in left_out)
        rest = ((row, _fetched(cache, source, row, told)) for row in wanted)
        _install(artifact, [(first, small), *rest], folder)
    return Installed(folder, artifact, config, fetched=True, left_out=left_out)


def _verified(
    source: ArtifactSource, digest: str, keys: Sequence[TrustKey], at: datetime | None
) -> VerifiedArtifact:
    require_published(source, digest)
    found, bundles = source.manifest(digest), source.attestations(digest)
    artifact = verify_artifact(found, digest, bundles, keys, at=at)
    require_free_names(artifact.manifest)
    return artifact


def _left_out(artifact: VerifiedArtifact, place: Place) -> dict[str, str]:
    """Return the runtime caches that are of no use in a place, and why."""
    caches = (row for row in artifact.manifest.layers if is_cache(row))
    return {row.name: why for row in caches if (why := misfit(row, place)) is not None}


def _install(
    artifact: VerifiedArtifact, blobs: Sequence[tuple[Descriptor, Path]], folder: Path
) -> None:
    with _staging(folder) as staging:
        write_new(staging / MANIFEST, artifact.manifest_bytes)
        write_new(staging / PROVENANCE, artifact.bundle)
        for layer, blob in blobs:
            _place(blob, staging / layer.name, layer)
        sync_folder(staging)
        _show(staging, folder)


def _fetched(
    cache: BlobCache, source: ArtifactSource, layer: Descriptor, told: Told | None
) -> Path:
    try:
        return cache.fetch(source, layer, told)
    except NotFound as error:
        error.message = f"{layer.name} of this artifact cannot be had. {error.message}"
        raise


def _require_replaceable(folder: Path) -> None:
    """Refuse to put an artifact in the place of anything but an artifact."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        foreign = [folder.name]
    else:
        foreign = _foreign(folder) if folder.exists() else []
    if foreign:
        raise Conflict(
            f"{folder} is not an artifact's folder.",
            code="destination_not_an_install",
            why=f"It holds {', '.join(foreign[:5])}, which replacing it would destroy.",
            fix="Name a folder that is not there yet, or one that an earlier pull has made.",
        )


def _foreign(folder: Path) -> list[str]:
    """Return the names in a folder that no pull has put there."""
    names = {path.name for path in folder.iterdir()}
    if is_install(folder):
        names -= OWN_FILES
        try:
            manifest = read_manifest(read_small(folder / MANIFEST, MANIFEST, MAX_MANIFEST_BYTES))
            names -= {layer.name for layer in manifest.layers}
        except VerificationFailed:
            # Damaged: whose the other files are cannot be told.
            names |= {MANIFEST} if names else set()
    return sorted(names)


def require_published(source: ArtifactSource, digest: str) -> None:
    """Refuse an artifact that its farm does not let out, or has taken back.

    Raises:
        VerificationFailed: ``artifact_quarantined``, ``artifact_revoked``.
        Gone: ``artifact_revoked``, if the key may not look at it any more.
    """
    state = source.state(digest)
    if state is ArtifactState.PUBLISHED:
        return
    kept = source.kept_back(digest) or "the farm does not say why"
    back = "The farm has taken it back" if state is ArtifactState.REVOKED else "It is kept back"
    raise VerificationFailed(
        f"{digest} is {state}.",
        code=f"artifact_{state}",
        why=f"{back}: {kept.rstrip('.')}.",
        fix=f"See more with: enginefarm report {digest}; deploy another artifact of this model.",
    )


def _already(
    folder: Path, digest: str, keys: Sequence[TrustKey], at: datetime | None
) -> Installed | None:
    """Return what is installed if it is this artifact, whole; else it is installed anew."""
    if not is_install(folder):
        return None
    try:
        return verify_folder(folder, keys, digest=digest, at=at)
    except VerificationFailed:
        return None


def _config_file(artifact: VerifiedArtifact) -> Descriptor:
    """Return the config as a file with a name; in a manifest it has none."""
    config = artifact.manifest.config
    return config.model_copy(update={"annotations": {TITLE: CONFIG}})


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Give a hidden folder beside ``folder``; whatever happens, it is gone afterwards."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.pull-"
    _sweep(folder.parent, prefix)
    staging = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    handle = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock(handle, LOCK_EX)
        staging.chmod(_FOLDER_MODE)
        yield staging
    finally:
        os.close(handle)
        shutil.rmtree(staging, ignore_errors=True)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove what a pull that was killed has left: old, and no process holds its lock."""
    for left in parent.glob(f"{glob.escape(prefix)}*"):
        try:
            if time.time() - left.lstat().st_mtime < _STALE_S:
                continue
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(handle)


def _place(blob: Path, path: Path, layer: Descriptor) -> None:
    """Put a blob in the folder, sharing the cache's bytes where that is safe, and hash it there."""
    mine = blob.lstat().st_uid == os.geteuid()
    try:
        if not mine:
            raise OSError(errno.EPERM, "another user's file is not shared")
        path.hardlink_to(blob)
    except OSError:
        shutil.copyfile(blob, path, follow_symlinks=False)
        path.chmod(READ_ONLY)
        sync_file(path)
    require_file(path, layer.name, layer)


def _show(staging: Path, folder: Path) -> None:
    """Let the folder appear, or change places with the old one, in one step."""
    try:
        staging.rename(folder)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        _swap(staging, folder)
    sync_folder(folder.parent)


def _swap(staging: Path, folder: Path) -> None:
    try:
        exchange(staging, folder)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EINVAL}:
            raise
        # Some file systems cannot exchange: for a moment there is no folder, never half of one.
        old = staging.with_name(f"{staging.name}.old")
        folder.rename(old)
        try:
            staging.rename(folder)
        except OSError:
            old.rename(folder)
            raise
        shutil.rmtree(old)
