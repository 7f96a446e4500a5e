"""A worker API on loopback and a node's workshop before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.messages import BackendDescription, Device
from tests.integration.workers.sandbox_bench import Bench
from tests.integration.workers.served import CREDENTIAL, Served, start
from workers.executor import Workshop
from workers.farm_api import WorkerApi
from workers.probe import probe_in_child


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a worker API that runs."""
    made = Served()
    stop = start(made)
    yield made
    stop()


@pytest.fixture
def workshop(served: Served, tmp_path: Path) -> Iterator[Workshop]:
    """Return what a node brings to a job."""
    api = WorkerApi(served.url, CREDENTIAL)
    yield Workshop(
        api=api,
        scratch=tmp_path / "scratch",
        devices=[Device(arch="cpu", name="cpu")],
        job_log_bytes=1 << 20,
    )
    api.close()


@pytest.fixture(scope="session")
def backends() -> dict[str, BackendDescription]:
    """Return the backends that load here."""
    return {backend.name: backend for backend in probe_in_child().backends}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a bench in a folder of its own."""
    return Bench(tmp_path)
