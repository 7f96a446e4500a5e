"""The driver's stand-in keeps what the real one does, which ``tests/gpu`` asks the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cuda.library import Library
from tests.contract.cuda.suite import CudaDriverSuite, Open
from workers.backends.cuda_driver import CudaDriver
from workers.backends.device_port import NotOnDevice


class TestStandIn(CudaDriverSuite):
    @pytest.fixture
    def library(self) -> Iterator[Library]:
        library = Library()
        yield library
        assert library.held == {}

    @pytest.fixture
    def open_driver(self, library: Library) -> Open:
        return lambda ordinal=0: CudaDriver(ordinal, load=library.load)


def test_a_graph_that_the_driver_does_not_make_leaves_nothing() -> None:
    library = Library()
    library.fails["cuGraphInstantiateWithFlags"] = 801
    driver = CudaDriver(load=library.load)
    with pytest.raises(NotOnDevice, match="cuGraphInstantiateWithFlags answered 801: it gives no"):
        driver.captured(lambda: None)
    assert library.held == {}


def test_a_driver_without_one_of_the_calls_cannot_be_used() -> None:
    library = Library()
    del library._calls["cuGraphLaunch"]
    with pytest.raises(NotOnDevice, match="cuGraphLaunch"):
        CudaDriver(load=library.load)
