"""What needs an NVIDIA GPU. Where there is none, each test says so and is not run.

How to run it is in the README beside this.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.backends.bench import Bench, found
from tests.gpu.evidence import Evidence
from tests.gpu.node import GpuNode, rules
from tests.integration.workers.served import CREDENTIAL, Served, start
from workers.executor import Workshop
from workers.farm_api import WorkerApi
from workers.gpu import nvml
from workers.gpu.port import Nvml
from workers.settings import ROOT

HOG = """
import ctypes, sys, time
import onnxruntime
onnxruntime.preload_dlls()
cuda = ctypes.CDLL("libcudart.so.13")
free, total, place = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
left, step = int(sys.argv[1]), 1 << 33
while step >= 1 << 20:
    if cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)):
        sys.exit("the GPU's memory cannot be read")
    if free.value - left < step or cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(step)):
        step //= 2
print(free.value, flush=True)
time.sleep(600)
"""


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark where the project's own settings are not read."""
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU; never run by CI")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put last what opens the GPU in this very process: to all others it is a stranger there."""
    items.sort(key=lambda item: item.path.stem in {"test_driver", "test_trt_on_device"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the run say where its page goes."""
    parser.addoption("--evidence", type=Path, help="write what was seen as Markdown to this file")


@pytest.fixture(scope="session")
def evidence(request: pytest.FixtureRequest) -> Iterator[Evidence]:
    """Return the page that the tests of this run fill."""
    made = Evidence()
    yield made
    path = request.config.getoption("--evidence", default=None)
    if path is not None:
        made.write(path)


@pytest.fixture
def port() -> Iterator[Nvml]:
    """Return the real NVML."""
    with nvml.opened() as opened:
        if opened is None:
            pytest.skip("not run: needs an NVIDIA GPU")
        yield opened


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GpuNode]:
    """Return an executor on the first GPU that ONNX Runtime measures on."""
    probe = found()
    backend = next((row for row in probe.backends if row.name == "onnxruntime"), None)
    measured = backend.measures if backend else []
    gpu = next((row for row in probe.devices if row.uuid and row.arch in measured), None)
    if gpu is None:
        pytest.skip("not run: needs an NVIDIA GPU and onnxruntime-gpu")
    served = Served()
    stop, api = start(served), WorkerApi(served.url, CREDENTIAL)
    workshop = Workshop(
        api=api,
        scratch=tmp_path / "scratch",
        devices=[row for row in probe.devices if row.uuid in {None, gpu.uuid}],
        job_log_bytes=1 << 20,
        gpus=rules(tmp_path / "locks", times=1),
    )
    yield GpuNode(served, workshop, probe, gpu)
    api.close()
    stop()


@pytest.fixture
def stranger(node: GpuNode) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Return a way to let somebody else's process have a context on the device."""
    there: list[subprocess.Popen[str]] = []

    def come() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.gpu.stranger", str(node.gpu.uuid), "512"]
        there.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        stdout = there[-1].stdout
        assert stdout is not None
        assert stdout.readline() == "there\n"
        return there[-1]

    yield come
    for process in there:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a bench for ONNX Runtime on the GPU."""
    backend = next((b for b in found().backends if b.name == "onnxruntime"), None)
    archs = [arch for arch in backend.measures if arch != "cpu"] if backend else []
    if backend is None or not archs:
        pytest.skip("not run: needs an NVIDIA GPU and onnxruntime-gpu")
    return Bench(backend, archs[0], tmp_path_factory.mktemp("gpu"), sandboxed=True)


@pytest.fixture
def crowd(bench: Bench) -> Iterator[Callable[[int], None]]:
    """Return a way to leave only so many bytes of the GPU's memory free."""
    hogs: list[subprocess.Popen[str]] = []

    def leave(free: int) -> None:
        hogs.append(
            subprocess.Popen(
                [sys.executable, "-c", HOG, str(free)], stdout=subprocess.PIPE, text=True
            )
        )
        stdout = hogs[-1].stdout
        assert stdout is not None
        assert int(stdout.readline()) < free + (64 << 20)

    yield leave
    for hog in hogs:
        hog.kill()
        hog.communicate()
