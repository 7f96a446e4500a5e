"""What the tests of this room share."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

WaitUntil = Callable[[Callable[[], bool]], None]


@pytest.fixture
def wait_until() -> WaitUntil:
    """Return a wait for something that other threads bring about; it gives up after 20 s."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.005)

    return wait
