"""A runtime cache is installed where it is of use; elsewhere it is left out, and that is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.client import FarmClient
from enginefarm.errors import VerificationFailed
from enginefarm.install import BlobCache, Installed, pull, verify_folder
from enginefarm.manifest import RUNTIME_CACHE
from enginefarm.runtime_cache import MadeFor, Place, file_name
from tests.unit.client.support.gpus import with_gpus
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm

L4, RTX = "NVIDIA L4", "NVIDIA GeForce RTX 4090"
ON_L4 = Place(gpus=(L4,), driver="580.159.04")


def made_for(gpu: str, driver: str = "580.100.01", system: str = "linux") -> MadeFor:
    return MadeFor(version="1.7.1.116", gpu=gpu, driver=driver, system=system)


Pull = Callable[[Release, Place], Installed]


@pytest.fixture
def at(
    client: FarmClient, loopback: LoopbackFarm, cache: BlobCache, key: SigningKey, tmp_path: Path
) -> Pull:
    """Return the call that pulls an artifact for a place, always into the same folder."""

    def run(release: Release, place: Place) -> Installed:
        keys, folder = [key.trusted], tmp_path / "engine"
        digest = loopback.serve(release)
        return pull(client.artifacts, digest, folder, keys, cache=cache, place=place)

    return run


@pytest.fixture
def release(key: SigningKey) -> Release:
    """Return an engine with the caches of two GPUs."""
    files = {"model.plan": b"engine", file_name(L4): b"for an L4", file_name(RTX): b"for a 4090"}
    told = {file_name(gpu): {RUNTIME_CACHE: made_for(gpu).annotation} for gpu in (L4, RTX)}
    return Release.of(key, files, annotations=told)


def test_the_cache_of_this_gpu_is_installed_and_the_others_are_left_out(
    at: Pull, release: Release, key: SigningKey
) -> None:
    installed = at(release, ON_L4)
    assert (installed.folder / "runtime-l4.cache").read_bytes() == b"for an L4"
    assert not (installed.folder / "runtime-geforce-rtx-4090.cache").exists()
    assert installed.left_out == {
        "runtime-geforce-rtx-4090.cache": f"it is for {RTX}; here is {L4}"
    }
    # A folder without what is of no use is as good as whole, and one with a changed cache is not.
    again = verify_folder(installed.folder, [key.trusted], digest=release.digest)
    assert list(again.left_out) == ["runtime-geforce-rtx-4090.cache"]
    path = installed.folder / "runtime-l4.cache"
    path.unlink()
    path.write_bytes(b"other code")
    with pytest.raises(VerificationFailed) as refused:
        verify_folder(installed.folder, [key.trusted])
    assert refused.value.code in {"file_too_long", "file_digest_mismatch"}


def test_a_folder_that_lacks_a_cache_of_use_is_filled_when_it_is_pulled_again(
    at: Pull, release: Release
) -> None:
    blind = at(release, Place())
    assert len(blind.left_out) == 2
    assert not at(release, Place()).fetched
    seeing = at(release, ON_L4)
    assert seeing.fetched
    assert (seeing.folder / "runtime-l4.cache").exists()
    assert not at(release, ON_L4).fetched


@pytest.mark.parametrize(
    ("made", "place", "of_use"),
    [
        (made_for(L4), ON_L4, True),
        (made_for(L4), Place(gpus=("l4",), driver="580.100.01"), True),
        (made_for(L4), Place(gpus=(L4,), driver="580.99.01"), False),
        (made_for(L4), Place(gpus=(L4,), driver="590.1"), False),
        (made_for(L4), Place(gpus=(L4,)), False),
        (made_for(L4), Place(gpus=(RTX, L4), driver="580.159.04"), True),
        (made_for(L4, system="windows"), ON_L4, False),
        (made_for("NVIDIA L40S"), ON_L4, False),
    ],
)
def test_a_cache_is_of_use_on_its_gpu_with_a_driver_as_new_of_the_same_major_version(
    at: Pull,
    key: SigningKey,
    made: MadeFor,
    place: Place,
    of_use: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    told = {"runtime.cache": {RUNTIME_CACHE: made.annotation}}
    files = {"model.plan": b"engine", "runtime.cache": b"code"}
    installed = at(Release.of(key, files, annotations=told), place)
    assert (installed.left_out == {}) is of_use


def test_the_command_takes_the_gpu_of_this_machine_or_the_one_that_is_named(
    farm_env: LoopbackFarm,
    release: Release,
    trust_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    digest = farm_env.serve(release)
    with_gpus(monkeypatch, (L4, 8, 9))
    known = ["--trust", str(trust_file)]
    assert invoke(["pull", digest, "mine", *known]) == 0
    said = capsys.readouterr().out
    assert f"left out  runtime-geforce-rtx-4090.cache: it is for {RTX}; here is {L4}" in said
    other = ["--host-gpu", "geforce-rtx-4090", "--host-driver", "580.200.01", "--json"]
    assert invoke(["pull", digest, "theirs", *known, *other]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["left_out"]) == ["runtime-l4.cache"]
    assert "runtime-geforce-rtx-4090.cache" in {row["name"] for row in told["files"]}
    capsys.readouterr()
    strange = ["--host-gpu", "a100", "--host-driver", "9" * 5000]
    assert invoke(["pull", digest, "strange", *known, *strange]) == 0
    said = capsys.readouterr().err
    assert "no runtime cache is of use there: runtime-" in said
    assert "here is a100" in said
