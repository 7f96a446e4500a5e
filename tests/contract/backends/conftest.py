"""One suite for the port of backends, run on every backend that is present here.

A backend that does not load is skipped by its name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.state import Stage
from tests.contract.backends import made
from tests.contract.backends.bench import Bench, Ran, found
from workers.backends.registry import MODULES


@pytest.fixture(params=sorted(MODULES), scope="module")
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a bench for each backend that loads here."""
    backend = next((b for b in found().backends if b.name == request.param), None)
    if backend is None:
        pytest.skip(f"{request.param} does not load here: {found().absent[request.param]}")
    arch = "sm_89" if "sm_89" in backend.builds else backend.builds[0]
    return Bench(backend, arch, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def measuring(bench: Bench) -> Bench:
    """Return a bench whose backend can run here what it builds."""
    if bench.arch not in bench.backend.measures:
        pytest.skip(f"{bench.backend.name}@{bench.arch} cannot be measured here")
    return bench


@pytest.fixture(scope="module")
def model(bench: Bench) -> Path:
    """Return a small model that every backend builds."""
    return made.save(bench.folder / "model", made.dense())


@pytest.fixture(scope="module")
def built(bench: Bench, model: Path) -> Ran:
    """Return the small model's build, made once."""
    ran = bench.run(Stage.COMPILE, model)
    assert ran.code is None, ran.log
    return ran


@pytest.fixture(scope="module")
def engine(built: Ran) -> Path:
    """Return the small model's engine."""
    assert built.result is not None
    return built.result.outputs[0].path
