"""What is not what was signed is refused, and what was there before stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm.digest import digest_of, hex_of
from enginefarm.errors import VerificationFailed
from enginefarm.install import BlobCache, verify_folder
from tests.unit.client.support.pulling import Fetch
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm

Spoil = Callable[[LoopbackFarm, Release], str]


def _serve_wrong_bytes(farm: LoopbackFarm, release: Release) -> str:
    digest = farm.serve(release)
    good = release.files["model.onnx"]
    farm.blobs[digest_of(good)] = b"X" + good[1:]
    return digest


def _serve_truncated(farm: LoopbackFarm, release: Release) -> str:
    digest = farm.serve(release)
    good = release.files["model.onnx"]
    farm.blobs[digest_of(good)] = good[:-1]
    return digest


def _serve_longer(farm: LoopbackFarm, release: Release) -> str:
    digest = farm.serve(release)
    good = release.files["model.onnx"]
    farm.blobs[digest_of(good)] = good + b"and a tail"
    return digest


def _serve_swapped_manifest(farm: LoopbackFarm, release: Release) -> str:
    other = Release.of(SigningKey.new(), {"model.onnx": b"other engine"})
    return farm.serve(other, release.digest)


def _sign_with_wrong_key(farm: LoopbackFarm, release: Release) -> str:
    release.sign(SigningKey.new())
    return farm.serve(release)


def _sign_nothing(farm: LoopbackFarm, release: Release) -> str:
    release.bundles = []
    return farm.serve(release)


def _revoke(farm: LoopbackFarm, release: Release) -> str:
    release.state = "revoked"
    return farm.serve(release)


def _quarantine(farm: LoopbackFarm, release: Release) -> str:
    release.state = "quarantined"
    return farm.serve(release)


REFUSED: dict[str, tuple[Spoil, str]] = {
    "wrong bytes": (_serve_wrong_bytes, "file_digest_mismatch"),
    "truncated file": (_serve_truncated, "file_truncated"),
    "longer file": (_serve_longer, "file_too_long"),
    "swapped manifest": (_serve_swapped_manifest, "manifest_digest_mismatch"),
    "wrong key": (_sign_with_wrong_key, "key_unknown"),
    "no attestation": (_sign_nothing, "attestation_missing"),
    "revoked": (_revoke, "artifact_revoked"),
    "quarantined": (_quarantine, "artifact_quarantined"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_what_was_signed_is_refused_and_the_old_install_stays(
    name: str,
    fetch: Fetch,
    loopback: LoopbackFarm,
    release: Release,
    key: SigningKey,
    tmp_path: Path,
) -> None:
    old = Release.of(key, {"model.onnx": b"the old engine"})
    fetch(loopback.serve(old))
    before = snapshot(tmp_path / "engine")
    spoil, code = REFUSED[name]
    digest = spoil(loopback, release)

    with pytest.raises(VerificationFailed) as caught:
        fetch(digest)

    assert caught.value.code == code
    assert snapshot(tmp_path / "engine") == before
    assert [path.name for path in tmp_path.iterdir() if "pull-" in path.name] == []
    verify_folder(tmp_path / "engine", [key.trusted], digest=old.digest)


def test_what_is_kept_back_says_why(fetch: Fetch, loopback: LoopbackFarm, release: Release) -> None:
    with pytest.raises(VerificationFailed) as caught:
        fetch(_quarantine(loopback, release))
    assert caught.value.why == "It is kept back: slower than its twin."
    with pytest.raises(VerificationFailed) as caught:
        fetch(_revoke(loopback, release))
    assert "revoked on 2026-12-01: calibrated on the wrong data" in caught.value.why


@pytest.mark.parametrize("spoil", [_serve_wrong_bytes, _serve_longer])
def test_bytes_that_were_refused_are_not_kept(
    spoil: Spoil, fetch: Fetch, loopback: LoopbackFarm, release: Release, cache: BlobCache
) -> None:
    digest = spoil(loopback, release)
    with pytest.raises(VerificationFailed):
        fetch(digest)

    path = cache.path(digest_of(release.files["model.onnx"]))
    assert not path.exists()
    assert not path.with_suffix(".part").exists() or not path.with_suffix(".part").stat().st_size


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", ".hidden", "a\\b", "a:b", "a\nb", ""])
def test_a_manifest_with_an_unsafe_file_name_is_refused_even_when_signed(
    name: str, fetch: Fetch, loopback: LoopbackFarm, release: Release, key: SigningKey
) -> None:
    manifest = json.loads(release.manifest)
    manifest["layers"][0]["annotations"]["org.opencontainers.image.title"] = name
    release.manifest = json.dumps(manifest).encode()
    release.statement["subject"].append(
        {"name": "manifest.json", "digest": {"sha256": hex_of(release.digest)}}
    )
    release.sign(key)

    with pytest.raises(VerificationFailed) as caught:
        fetch(loopback.serve(release))
    assert caught.value.code == "manifest_invalid"


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "provenance.sigstore.json"])
def test_a_file_may_not_take_the_place_of_the_folders_own(
    name: str, fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    release = Release.of(key, {"model.onnx": b"engine", name: b"{}"})

    with pytest.raises(VerificationFailed) as caught:
        fetch(loopback.serve(release))
    assert caught.value.code == "manifest_invalid"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()}
