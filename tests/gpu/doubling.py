"""The stand-in for TensorRT that doubles, on a real GPU: its kernel is compiled by the driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p

from tests.contract.backends.trt_api.engines import Behind
from workers.backends.cuda_driver import CudaDriver

MOST = 1 << 22
THREADS = 256
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 source, .param .u64 goal, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .f32 %f<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [source];
  ld.param.u64 %rd2, [goal];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra over;
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.u32 %rd5, %r5, 4;
  add.s64 %rd6, %rd3, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.f32 %f1, [%rd6];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd7], %f2;
over:
  ret;
}
"""


class OnGpu(Behind):
    """TensorRT's recorded API over a kernel on the first GPU, for n up to :data:`MOST`."""

    def __init__(self, runtime: str, outputs: str = "y") -> None:
        """Compile the kernel.

        Raises:
            NotOnDevice: there is no GPU.
        """
        self.waits = False
        super().__init__(runtime, outputs, profiles=((1, 4, MOST),))
        self._own = CudaDriver()  # its context is the one that the kernel is loaded into
        self._cuda = ctypes.CDLL("libcuda.so.1")
        module, self._twice = c_void_p(), c_void_p()
        self._need(self._cuda.cuModuleLoadData(byref(module), ctypes.c_char_p(PTX)))
        self._need(self._cuda.cuModuleGetFunction(byref(self._twice), module, b"twice"))

    def stream(self) -> CudaDriver:
        """Open a stream on the GPU."""
        return CudaDriver()

    def is_on_device(self, address: int) -> bool:
        """Ask the driver whose memory that is."""
        kind = c_uint()
        status = self._cuda.cuPointerGetAttribute(byref(kind), c_int(2), c_void_p(address))
        return status == 0 and kind.value == 2

    def double(self, x: int, y: int, count: int, stream: int) -> bool:
        """Launch the kernel; where it ``waits``, wait for the stream, as no capture allows."""
        if self.waits and self._cuda.cuStreamSynchronize(c_void_p(stream)):
            self.say("the stream cannot be waited for")
            return False
        given = (c_void_p(x), c_void_p(y), c_uint(count))
        places = (c_void_p * 3)(*(ctypes.addressof(each) for each in given))
        size = (c_uint((count + THREADS - 1) // THREADS), c_uint(1), c_uint(1))
        threads = (c_uint(THREADS), c_uint(1), c_uint(1))
        launch = self._cuda.cuLaunchKernel
        status = launch(self._twice, *size, *threads, c_uint(0), c_void_p(stream), places, None)
        return int(status) == 0

    def free_bytes(self) -> int:
        """Return how much of the GPU's memory nobody has."""
        free, total = c_size_t(), c_size_t()
        self._need(self._cuda.cuMemGetInfo_v2(byref(free), byref(total)))
        return int(free.value)

    def _need(self, status: int) -> None:
        assert status == 0, f"CUDA's driver answered {status}"
