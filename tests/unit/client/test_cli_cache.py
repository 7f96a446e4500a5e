"""The cache can be looked at and made smaller; what is installed stays, and no pull is cut."""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.errors import Conflict
from enginefarm.install import BlobCache, verify_folder
from enginefarm.install.room import kept_in, prune
from tests.unit.client.support.pulling import Fetch
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm

DAY = 86_400.0


def keep(cache: BlobCache, number: int, size: int, used_at: float) -> str:
    """Put a file in the cache as if a pull had used it then."""
    digest = f"sha256:{number:064x}"
    path = cache.path(digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    path.with_suffix(".lock").touch()
    os.utime(path, (used_at, used_at))
    return digest


@pytest.fixture
def now() -> float:
    return time.time()


@pytest.fixture
def three(cache: BlobCache, now: float) -> list[str]:
    """Return three files: used today, ten and forty days ago."""
    return [keep(cache, n, 100, now - days * DAY) for n, days in enumerate((0, 10, 40), 1)]


def test_what_was_used_last_stays_up_to_so_many_bytes(cache: BlobCache, three: list[str]) -> None:
    done = prune(cache, keep_bytes=200)

    assert [each.digest for each in done.removed] == three[2:]
    assert [each.digest for each in kept_in(cache)] == three[:2]


def test_what_was_not_used_for_so_long_goes(cache: BlobCache, three: list[str], now: float) -> None:
    done = prune(cache, older_than_s=5 * DAY, now=now)

    assert [each.digest for each in done.removed] == three[1:]
    assert [each.digest for each in done.left] == three[:1]


def test_the_beginning_of_a_file_and_its_lock_go_as_well(
    cache: BlobCache, three: list[str]
) -> None:
    part = cache.path(three[0]).with_suffix(".part")
    part.write_bytes(b"begun")

    prune(cache, keep_bytes=0)

    assert [path for path in (cache.folder / "sha256").rglob("*") if path.is_file()] == []


def test_using_a_file_again_makes_it_the_last_to_go(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, cache: BlobCache, three: list[str]
) -> None:
    digest = loopback.serve(release)
    fetch(digest)
    for each in kept_in(cache):
        os.utime(each.path, (1, 1))

    fetch(digest, "other")

    assert {each.digest for each in kept_in(cache) if each.used_at > 1} == {
        f"sha256:{cache.path(blob).name}" for blob in release.blobs
    }


def test_what_is_installed_is_whole_after_the_cache_is_emptied(
    fetch: Fetch, loopback: LoopbackFarm, release: Release, cache: BlobCache, key: SigningKey
) -> None:
    installed = fetch(loopback.serve(release))

    done = prune(cache, keep_bytes=0)

    assert all(each.shared for each in done.removed)
    assert kept_in(cache) == []
    assert verify_folder(installed.folder, [key.trusted]).artifact.digest == release.digest
    assert fetch(release.digest, "other").fetched


def test_while_a_pull_uses_the_cache_nothing_is_removed(cache: BlobCache, three: list[str]) -> None:
    with cache.in_use(), cache.in_use(), pytest.raises(Conflict) as caught:
        prune(cache, keep_bytes=0)

    assert caught.value.code == "cache_in_use"
    assert len(kept_in(cache)) == 3
    prune(cache, keep_bytes=0)
    assert kept_in(cache) == []


def test_a_pull_holds_the_cache_until_the_folder_is_shown(
    fetch: Fetch,
    loopback: LoopbackFarm,
    release: Release,
    cache: BlobCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[tuple[object, ...]] = []
    # The package shows the function of that name, not the module.
    module = importlib.import_module("enginefarm.install.pull")
    place = module._place

    def placed(*args: object) -> None:
        with pytest.raises(Conflict):
            prune(cache, keep_bytes=0)
        refused.append(args)
        place(*args)

    monkeypatch.setattr(module, "_place", placed)

    assert fetch(loopback.serve(release)).fetched
    assert len(refused) == 3


def test_the_commands_list_and_prune_without_a_farm(
    farm_env: LoopbackFarm,
    cache: BlobCache,
    three: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("ENGINEFARM_URL")
    monkeypatch.setenv("ENGINEFARM_CACHE", str(cache.folder))

    assert invoke(["cache", "list", "--json"]) == ExitCode.OK
    listed = json.loads(capsys.readouterr().out)
    assert [row["digest"] for row in listed["files"]] == three
    assert invoke(["cache", "list"]) == ExitCode.OK
    assert "3 files, 300 B" in capsys.readouterr().err
    assert invoke(["cache", "prune", "--older-than", "30d"]) == ExitCode.OK
    assert capsys.readouterr().out == "removed 1 file, 100 B; left 2 files, 200 B\n"
    assert invoke(["cache", "prune", "--keep-bytes", "0.1kB", "--json"]) == ExitCode.OK
    done = json.loads(capsys.readouterr().out)
    assert [row["digest"] for row in done["removed"]] == three[1:2]
    assert [row["digest"] for row in done["left"]] == three[:1]
    assert farm_env.seen == []


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--keep-bytes", "lots"],
        ["--older-than", "lots"],
        ["--older-than", "30"],
        ["--keep-bytes", "-1"],
    ],
)
def test_what_is_to_go_must_be_said(
    more: list[str], farm_env: LoopbackFarm, cache: BlobCache, three: list[str]
) -> None:
    line = ["cache", "prune", *more, "--cache", str(cache.folder)]

    assert invoke(line) == ExitCode.USAGE
    assert len(kept_in(cache)) == 3


def test_a_cache_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert kept_in(BlobCache(tmp_path / "none")) == []
