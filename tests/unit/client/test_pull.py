"""Pull shows exactly what was signed, in one step, and replaces nothing but an artifact."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import Conflict, FarmError
from enginefarm.install import BlobCache, pull, verify_folder
from tests.unit.client.support.pulling import BIG, Fetch, blob_path
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm


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


def test_an_empty_file_is_installed(fetch: Fetch, loopback: LoopbackFarm, key: SigningKey) -> None:
    release = Release.of(key, {"model.onnx": b"engine", "build.log": b""})

    folder = fetch(loopback.serve(release)).folder

    assert (folder / "build.log").read_bytes() == b""


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
