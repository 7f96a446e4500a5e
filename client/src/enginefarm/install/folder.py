"""An install folder: the artifact's files, and beside them what is needed to verify them offline.

``manifest.json``, ``config.json`` and ``provenance.sigstore.json`` stand beside the files that the
manifest names, and nothing else does: a runtime may load what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue, ValidationError

from enginefarm.attestation import MAX_BUNDLE_BYTES
from enginefarm.digest import digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.install.files import digest_mismatch, read_small, require_file, require_size
from enginefarm.manifest import MAX_MANIFEST_BYTES, EngineConfig, Manifest
from enginefarm.provenance import VerifiedArtifact, verify_artifact
from enginefarm.runtime_cache import is_cache
from enginefarm.trust_views import TrustKey

MANIFEST, CONFIG, PROVENANCE = "manifest.json", "config.json", "provenance.sigstore.json"
OWN_FILES = frozenset({MANIFEST, CONFIG, PROVENANCE})
MAX_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True)
class Installed:
    """A folder that holds exactly what was signed."""

    folder: Path
    artifact: VerifiedArtifact
    config: EngineConfig
    fetched: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Runtime caches that are not there, by name, and why."""

    @property
    def engine(self) -> Path:
        """The file that a runtime loads."""
        return self.folder / self.config.engine_file


def verify_folder(
    folder: Path,
    keys: Sequence[TrustKey],
    *,
    digest: str | None = None,
    allow_extra: bool = False,
    at: datetime | None = None,
) -> Installed:
    """Return what a folder holds if it is, to the byte, what a trusted key has signed.

    ``digest`` is the artifact it must be; absent: whichever is signed. ``allow_extra`` lets other
    files stand beside it. No network.

    Raises:
        VerificationFailed: those of :func:`enginefarm.provenance.verify_artifact`, the refusals of
            files, ``artifact_unexpected``, ``file_unexpected`` and ``config_invalid``.
    """
    _require_folder(folder)
    manifest_bytes = read_small(folder / MANIFEST, MANIFEST, MAX_MANIFEST_BYTES)
    actual = digest_of(manifest_bytes)
    if digest is not None and actual != digest:
        raise VerificationFailed(
            f"{folder} holds another artifact.",
            code="artifact_unexpected",
            why=f"It is {actual} instead of {digest}.",
            fix="Pull the artifact you want into this folder.",
            expected=digest,
            actual=actual,
        )
    bundle = read_small(folder / PROVENANCE, PROVENANCE, MAX_BUNDLE_BYTES)
    artifact = verify_artifact(manifest_bytes, actual, [bundle], keys, at=at)
    require_free_names(artifact.manifest)
    config = read_config(read_small(folder / CONFIG, CONFIG, MAX_CONFIG_BYTES), artifact.manifest)
    left_out = _require_files(folder, artifact.manifest)
    if not allow_extra:
        _require_nothing_else(folder, artifact.manifest)
    return Installed(folder, artifact, config, left_out=left_out)


def _require_files(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Refuse a file that is not as signed; return the runtime caches that are not there."""
    left_out = {}
    for layer in manifest.layers:
        path = folder / layer.name
        if is_cache(layer) and not path.exists() and not path.is_symlink():
            left_out[layer.name] = "it was left out when this folder was made"
        else:
            require_file(path, layer.name, layer)
    return left_out


def read_config(data: bytes, manifest: Manifest) -> EngineConfig:
    """Read the config that a verified manifest names.

    Raises:
        VerificationFailed: it is not what was signed, or names an engine file that is not there
            (code ``config_invalid``).
    """
    require_size(CONFIG, len(data), manifest.config.size)
    actual = digest_of(data)
    if actual != manifest.config.digest:
        raise digest_mismatch(CONFIG, manifest.config.digest, actual)
    try:
        config = EngineConfig.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _config_invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if manifest.file(config.engine_file) is None:
        raise _config_invalid(f"it names the engine file {config.engine_file[:80]!r}")
    return config


def require_free_names(manifest: Manifest) -> None:
    """Refuse a manifest whose files would take the place of the folder's own.

    Raises:
        VerificationFailed: code ``manifest_invalid``.
    """
    taken = [layer.name for layer in manifest.layers if layer.name.lower() in OWN_FILES]
    if taken:
        raise VerificationFailed(
            "The manifest cannot be used.",
            code="manifest_invalid",
            why=f"It names a file {taken[0]}, which every install folder has already.",
            fix="Report this to the farm's operator.",
        )


def is_install(folder: Path) -> bool:
    """Tell whether a folder looks like one that an earlier pull left; nothing is verified."""
    return all((folder / name).is_file() for name in OWN_FILES)


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise VerificationFailed(
            f"There is no folder {folder}.",
            code="file_missing",
            why="It is a file." if folder.exists() else "It does not exist.",
            fix="Name the folder that enginefarm pull has made.",
        )


def _require_nothing_else(folder: Path, manifest: Manifest) -> None:
    known = OWN_FILES | {layer.name for layer in manifest.layers}
    extra = sorted(path.name for path in folder.iterdir() if path.name not in known)
    if extra:
        raise VerificationFailed(
            f"{folder} holds {extra[0]!r}, which nobody has signed.",
            code="file_unexpected",
            why=f"Not signed: {', '.join(extra[:5])}. A runtime may load what it finds.",
            fix="Move it elsewhere, or allow it with --allow-extra.",
            files=list[JsonValue](extra),
        )


def _config_invalid(reason: str) -> VerificationFailed:
    return VerificationFailed(
        "The signed config cannot be used.",
        code="config_invalid",
        why=f"The signature is good, but {reason}.",
        fix="Check that the client is as new as the farm.",
    )
