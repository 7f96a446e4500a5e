"""The one farm of this folder: to start one costs as much as to build a small model with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.backends import custom_operators
from tests.e2e.conftest import RunningFarm, started_farm


@pytest.fixture(scope="package")
def running_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    """Start the farm, wait until it is ready, and end it cleanly with the last file that needs it.

    A farm that stands idle costs the tests after it more than starting another.
    """
    folder = tmp_path_factory.mktemp("farm")
    plugins = custom_operators.laid(folder)
    with started_farm(folder, ENGINEFARM_LOCAL_PLUGINS=str(plugins)) as running:
        running.plugins = plugins
        yield running
