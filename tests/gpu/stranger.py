"""A process that is nobody's job: it opens a context on a GPU, takes some memory, and waits.

    python -m tests.gpu.stranger UUID MIB

It prints a line when it is there. It needs the driver alone.
"""

from __future__ import annotations

import ctypes
import sys
import time

from workers.settings import show_gpu

CALLS_S = 600


def main(uuid: str, mib: int) -> None:
    """Take the memory and wait to be ended."""
    show_gpu(uuid)
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
        cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(mib << 20)),
    ):
        if status:
            sys.exit(f"CUDA answered {status}")
    sys.stdout.write("there\n")
    sys.stdout.flush()
    time.sleep(CALLS_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
