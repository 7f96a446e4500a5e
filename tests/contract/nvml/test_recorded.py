"""Recorded devices keep what real ones do."""

from __future__ import annotations

import pytest

from tests.contract.nvml.recorded import RecordedNvml, recorded
from tests.contract.nvml.suite import NvmlSuite


class TestRecorded(NvmlSuite):
    @pytest.fixture(params=["one_card", "two_instances"])
    def nvml(self, request: pytest.FixtureRequest) -> RecordedNvml:
        return recorded(request.param)
