"""A key, an artifact signed with it, and a loopback farm that serves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from enginefarm.client import FarmClient
from enginefarm.install import BlobCache, Installed, pull
from enginefarm.trust_views import TrustView
from tests.unit.client.support.pulling import Fetch
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm


@pytest.fixture
def key() -> SigningKey:
    """Return the key that the farm signs with."""
    return SigningKey.new()


@pytest.fixture
def release(key: SigningKey) -> Release:
    """Return a good artifact."""
    return Release.of(key)


@pytest.fixture
def loopback() -> Iterator[LoopbackFarm]:
    """Return a server that serves nothing yet."""
    with LoopbackFarm() as farm:
        yield farm


@pytest.fixture
def trust_file(tmp_path: Path, key: SigningKey) -> Path:
    """Return a file that names the farm's key."""
    path = tmp_path / "trust.json"
    path.write_text(TrustView(keys=[key.trusted]).model_dump_json(), encoding="utf-8")
    return path


@pytest.fixture
def farm_env(
    loopback: LoopbackFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LoopbackFarm:
    """Let the command line find the loopback farm, and nothing of this machine's."""
    for name in list(os.environ):
        if name.startswith(("ENGINEFARM_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ENGINEFARM_URL", loopback.url)
    monkeypatch.setenv("ENGINEFARM_KEY", "ef_k_secret")
    monkeypatch.chdir(home)
    return loopback


@pytest.fixture
def client(loopback: LoopbackFarm) -> Iterator[FarmClient]:
    """Return a client of the loopback farm."""
    with FarmClient(loopback.url, "ef_k_secret") as client:
        yield client


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    """Return an empty cache that does not wait between two tries."""
    return BlobCache(tmp_path / "cache", sleep=lambda _: None)


@pytest.fixture
def fetch(client: FarmClient, cache: BlobCache, key: SigningKey, tmp_path: Path) -> Fetch:
    """Return the call that installs an artifact, trusting the farm's key."""

    def run(digest: str, name: str = "engine") -> Installed:
        return pull(client.artifacts, digest, tmp_path / name, [key.trusted], cache=cache)

    return run
