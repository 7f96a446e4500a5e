"""The calls of CUDA's driver do on a real GPU what the stand-in does for the tests without one.

It needs numpy and pytest beside the repository, and none of the farm's own packages: the README
beside this says how it is run so.
"""

from __future__ import annotations

import pytest

from tests.contract.cuda.suite import KIB, CudaDriverSuite, Open
from workers.backends.cuda_driver import CudaDriver
from workers.backends.device_port import NotOnDevice

pytestmark = pytest.mark.gpu


class TestReal(CudaDriverSuite):
    unit = KIB * KIB
    large = KIB * KIB * KIB

    @pytest.fixture
    def open_driver(self) -> Open:
        try:
            CudaDriver()
        except NotOnDevice as error:
            pytest.skip(f"not run: needs an NVIDIA GPU ({error})")
        return CudaDriver
