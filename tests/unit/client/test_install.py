"""Pull shows exactly what was signed or nothing, over a real HTTP server that misbehaves."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from enginefarm.client import FarmClient
from enginefarm.digest import digest_of, hex_of
from enginefarm.errors import Conflict, FarmError, Unavailable, VerificationFailed
from enginefarm.install import BlobCache, Installed, pull, verify_folder
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm

BIG = {"model.onnx": bytes(range(256)) * 16_384, "report.json": b"{}"}


@pytest.fixture
def client(loopback: LoopbackFarm) -> Iterator[FarmClient]:
    with FarmClient(loopback.url, "ef_k_secret") as client:
        yield client


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    return BlobCache(tmp_path / "cache", sleep=lambda _: None)


Fetch = Callable[..., Installed]


@pytest.fixture
def fetch(client: FarmClient, cache: BlobCache, key: SigningKey, tmp_path: Path) -> Fetch:
    def run(digest: str, name: str = "engine") -> Installed:
        return pull(client.artifacts, digest, tmp_path / name, [key.trusted], cache=cache)

    return run


def test_a_good_artifact_is_installed_with_all_that_is_needed_to_verify_it_offline(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, key: SigningKey, tmp_path: Path
) -> None:
    installed = fetch(loopback.serve(release))

    folder = tmp_path / "engine"
    assert installed.fetched
    assert installed.engine.read_bytes() == release.files["model.onnx"]
    assert {path.name for path in folder.iterdir()} == {
        *release.files,
        "manifest.json",
        "config.json",
        "provenance.sigstore.json",
    }
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o444 for path in folder.iterdir())
    again = verify_folder(folder, [key.trusted], digest=release.digest)
    assert again.artifact.statement == installed.artifact.statement


def test_what_is_installed_already_is_not_fetched_again(
    fetch: Fetch, loopback: LoopbackFarm, release: Release
) -> None:
    digest = loopback.serve(release)
    fetch(digest)
    loopback.downloads.clear()

    assert not fetch(digest).fetched
    assert not loopback.downloads


def test_a_second_folder_is_filled_from_the_cache(
    fetch: Fetch, loopback: LoopbackFarm, release: Release
) -> None:
    digest = loopback.serve(release)
    fetch(digest)
    loopback.downloads.clear()

    assert fetch(digest, "other").fetched
    assert not loopback.downloads


def test_a_cached_file_that_was_changed_in_place_is_fetched_anew(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, cache: BlobCache
) -> None:
    digest = loopback.serve(release)
    cached = cache.path(digest_of(release.files["model.onnx"]))
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"x" * len(release.files["model.onnx"]))

    assert fetch(digest).engine.read_bytes() == release.files["model.onnx"]


def test_a_connection_that_is_cut_is_resumed_where_it_broke(
    fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    release = Release.of(key, BIG)
    digest = loopback.serve(release)
    loopback.cuts = [1 << 20, 1_000_000, 1_000_000]

    assert fetch(digest).engine.read_bytes() == BIG["model.onnx"]
    ranges = [
        seen.headers.get("Range")
        for seen in loopback.seen
        if blob_path(BIG["model.onnx"]) == seen.path
    ]
    assert ranges[0] is None
    assert len(ranges) == 3
    assert all(text is not None and text.startswith("bytes=") for text in ranges[1:])
    conditions = {seen.headers.get("If-Match") for seen in loopback.seen if "Range" in seen.headers}
    assert conditions == {f'"{digest_of(BIG["model.onnx"])}"'}


def test_a_server_that_ignores_ranges_is_read_from_the_start(
    fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    digest = loopback.serve(Release.of(key, BIG))
    loopback.ignores_ranges = True
    loopback.cuts = [1 << 20, 1_000_000]

    assert fetch(digest).engine.read_bytes() == BIG["model.onnx"]


def test_what_came_before_the_farm_went_away_is_kept_for_the_next_pull(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, key: SigningKey, tmp_path: Path
) -> None:
    release = Release.of(key, BIG)
    digest = loopback.serve(release)
    loopback.cuts = [len(release.config), 1_000_000, *[0] * 6]

    with pytest.raises(Unavailable):
        fetch(digest)
    assert not (tmp_path / "engine").exists()
    part = cache.path(digest_of(BIG["model.onnx"])).with_suffix(".part")
    assert part.stat().st_size == 1_000_000

    assert fetch(digest).engine.read_bytes() == BIG["model.onnx"]
    assert loopback.seen[-2].headers["Range"] == "bytes=1000000-"


def test_a_poisoned_beginning_is_fetched_again_from_zero(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, key: SigningKey
) -> None:
    release = Release.of(key, BIG)
    part = cache.path(digest_of(BIG["model.onnx"])).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"poison")

    assert fetch(loopback.serve(release)).engine.read_bytes() == BIG["model.onnx"]


def test_a_part_that_is_longer_than_the_file_is_fetched_again_from_zero(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, release: Release
) -> None:
    part = cache.path(digest_of(release.files["model.onnx"])).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1_000_000)

    assert fetch(loopback.serve(release)).engine.read_bytes() == release.files["model.onnx"]


def test_a_link_in_the_place_of_a_part_is_not_written_through(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, release: Release, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part = cache.path(digest_of(release.files["model.onnx"])).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"):
        fetch(loopback.serve(release))
    assert victim.read_bytes() == b"precious"


def test_an_empty_file_is_installed(fetch: Fetch, loopback: LoopbackFarm, key: SigningKey) -> None:
    release = Release.of(key, {"model.onnx": b"engine", "build.log": b""})

    folder = fetch(loopback.serve(release)).folder

    assert (folder / "build.log").read_bytes() == b""


def test_a_redirect_to_a_bucket_is_followed_without_the_key(
    fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    release = Release.of(key, BIG)
    with LoopbackFarm() as bucket:
        bucket.serve(release)
        bucket.cuts = [1 << 20, 1_000_000]
        loopback.elsewhere = bucket.url

        assert fetch(loopback.serve(release)).engine.read_bytes() == BIG["model.onnx"]

        assert all("Authorization" in seen.headers for seen in loopback.seen)
        assert bucket.seen
        assert not any("Authorization" in seen.headers for seen in bucket.seen)
        assert not any("If-Match" in seen.headers for seen in bucket.seen)


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


def test_an_older_artifact_is_replaced_in_one_step(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, key: SigningKey, tmp_path: Path
) -> None:
    old = Release.of(key, {"model.onnx": b"the old engine"})
    fetch(loopback.serve(old))
    opened = os.open(tmp_path / "engine", os.O_RDONLY | os.O_DIRECTORY)

    fetch(loopback.serve(release))

    try:
        assert os.fstat(opened).st_ino != (tmp_path / "engine").stat().st_ino
    finally:
        os.close(opened)
    verify_folder(tmp_path / "engine", [key.trusted], digest=release.digest)


def test_a_file_system_that_cannot_exchange_still_never_shows_half_a_folder(
    fetch: Fetch,
    loopback: LoopbackFarm,
    release: Release,
    key: SigningKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(one: Path, other: Path) -> None:
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(sys.modules[pull.__module__], "exchange", refuse)
    fetch(loopback.serve(Release.of(key, {"model.onnx": b"the old engine"})))

    fetch(loopback.serve(release))

    verify_folder(tmp_path / "engine", [key.trusted], digest=release.digest)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_install_of_the_same_artifact_is_repaired(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, key: SigningKey, tmp_path: Path
) -> None:
    digest = loopback.serve(release)
    fetch(digest)
    spoiled = tmp_path / "engine" / "model.onnx"
    spoiled.chmod(0o644)
    spoiled.write_bytes(b"spoiled")

    assert fetch(digest).fetched
    verify_folder(tmp_path / "engine", [key.trusted], digest=digest)


@pytest.mark.parametrize("kind", ["foreign folder", "file", "link", "install with a foreign file"])
def test_what_is_not_an_install_is_never_replaced(
    kind: str,
    fetch: Fetch,
    loopback: LoopbackFarm,
    release: Release,
    key: SigningKey,
    tmp_path: Path,
) -> None:
    place = tmp_path / "engine"
    if kind == "file":
        place.write_bytes(b"precious")
    elif kind == "link":
        (tmp_path / "real").mkdir()
        place.symlink_to(tmp_path / "real")
    elif kind == "foreign folder":
        place.mkdir()
        (place / "thesis.txt").write_bytes(b"precious")
    else:
        fetch(loopback.serve(Release.of(key, {"model.onnx": b"the old engine"})))
        (place / "config.pbtxt").write_bytes(b"precious")

    with pytest.raises(Conflict) as caught:
        fetch(loopback.serve(release))
    assert caught.value.code == "destination_not_an_install"


def test_only_what_a_killed_pull_has_left_is_swept_away(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, tmp_path: Path
) -> None:
    left, living, recent = (tmp_path / f".engine.pull-{name}" for name in ("a", "b", "c"))
    for folder in (left, living, recent):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"half")
    for folder in (left, living):
        os.utime(folder, (0, 0))
    handle = os.open(living, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        fetch(loopback.serve(release))
    finally:
        os.close(handle)

    assert [folder.exists() for folder in (left, living, recent)] == [False, True, True]


def test_an_empty_folder_is_filled(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, tmp_path: Path
) -> None:
    (tmp_path / "engine").mkdir()

    assert fetch(loopback.serve(release)).fetched


def test_without_room_nothing_is_fetched(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginefarm.install.cache.RESERVE_BYTES", 1 << 60)

    with pytest.raises(FarmError) as caught:
        fetch(loopback.serve(release))
    assert caught.value.code == "disk_full"
    assert not loopback.downloads


@pytest.mark.parametrize("names", [["engine", "engine"], ["one", "two"]])
def test_pulls_by_two_processes_at_once_download_each_file_once(
    names: list[str],
    farm_env: LoopbackFarm,
    key: SigningKey,
    trust_file: Path,
    tmp_path: Path,
) -> None:
    release = Release.of(key, BIG)
    digest = farm_env.serve(release)
    farm_env.hold = threading.Event()
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "enginefarm.cli", "pull", digest, str(tmp_path / name)),
                *("--trust", str(trust_file), "--cache", str(tmp_path / "cache")),
            ],
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]

    # Both know what they want before either gets a byte of it.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _asked(farm_env, f"/{digest}/attestations") < 2:
        time.sleep(0.01)
    farm_env.hold.set()

    assert [process.wait(60) for process in processes] == [0, 0]
    assert farm_env.downloads == {blob_path(data): 1 for data in (release.config, *BIG.values())}
    for name in names:
        verify_folder(tmp_path / name, [key.trusted], digest=digest)


def _asked(farm: LoopbackFarm, end: str) -> int:
    return sum(seen.path.endswith(end) for seen in list(farm.seen))


@pytest.fixture
def installed(fetch: Fetch, loopback: LoopbackFarm, release: Release) -> Path:
    return fetch(loopback.serve(release)).folder


def _replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def _link(path: Path) -> None:
    target = path.parent.parent / "moved"
    path.rename(target)
    path.symlink_to(target)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


Damage = Callable[[Path], object]
DAMAGED: dict[str, tuple[Damage, str]] = {
    "wrong bytes": (
        lambda d: _replace(d / "model.onnx", b"X" + (d / "model.onnx").read_bytes()[1:]),
        "file_digest_mismatch",
    ),
    "truncated": (
        lambda d: _replace(d / "model.onnx", (d / "model.onnx").read_bytes()[:-1]),
        "file_truncated",
    ),
    "longer": (
        lambda d: _replace(d / "model.onnx", (d / "model.onnx").read_bytes() + b"x"),
        "file_too_long",
    ),
    "missing": (lambda d: (d / "model.onnx").unlink(), "file_missing"),
    "link": (lambda d: _link(d / "model.onnx"), "file_not_plain"),
    "pipe": (
        lambda d: _pipe(d / "model.onnx"),
        "file_not_plain",
    ),
    "no provenance": (lambda d: (d / "provenance.sigstore.json").unlink(), "file_missing"),
    "no manifest": (lambda d: (d / "manifest.json").unlink(), "file_missing"),
    "no config": (lambda d: (d / "config.json").unlink(), "file_missing"),
    "config changed": (
        lambda d: _replace(
            d / "config.json", (d / "config.json").read_bytes().replace(b"cpu", b"gpu")
        ),
        "file_digest_mismatch",
    ),
    "manifest changed": (
        lambda d: _replace(d / "manifest.json", (d / "manifest.json").read_bytes() + b"\n"),
        "subject_missing",
    ),
    "provenance changed": (
        lambda d: _replace(d / "provenance.sigstore.json", b"{}"),
        "bundle_invalid",
    ),
    "extra file": (lambda d: (d / "plugin.so").write_bytes(b"\x7fELF"), "file_unexpected"),
    "no folder": (lambda d: d.rename(d.with_name("gone")), "file_missing"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_an_installed_folder_that_was_changed_is_refused(
    name: str, installed: Path, key: SigningKey
) -> None:
    damage, code = DAMAGED[name]
    damage(installed)

    with pytest.raises(VerificationFailed) as caught:
        verify_folder(installed, [key.trusted])
    assert caught.value.code == code


def test_other_files_may_stand_beside_it_if_one_says_so(installed: Path, key: SigningKey) -> None:
    (installed / "config.pbtxt").write_bytes(b"platform")

    assert verify_folder(installed, [key.trusted], allow_extra=True).folder == installed


def test_a_good_folder_of_another_artifact_is_refused(installed: Path, key: SigningKey) -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_folder(installed, [key.trusted], digest=digest_of(b"another"))
    assert caught.value.code == "artifact_unexpected"


def blob_path(data: bytes) -> str:
    return f"/v1/blobs/{digest_of(data)}"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()}
