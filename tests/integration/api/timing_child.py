"""``python -m tests.integration.api.timing_child``: a job's child, whose TensorRT is a stand-in.

All else is the child that a node starts: its port to a backend, its stages, what it writes.
"""

from __future__ import annotations

import os
import sys

from tests.contract.backends.trt_api.timing_runtime import TimingRuntime
from tests.timing_sets import VERSION
from workers.child import main

if __name__ == "__main__":
    sys.modules["tensorrt"] = TimingRuntime(VERSION).module
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
