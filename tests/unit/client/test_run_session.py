"""An engine for a GPU is run on that GPU or not at all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from enginefarm.cli.exit_codes import ExitCode, exit_code_of
from enginefarm.cli.run_session import opened, require_runs_here
from enginefarm.errors import FarmError
from enginefarm.install.host import Gpu, Host

ADA = Host((Gpu("NVIDIA L4", "sm_89"),))
CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def config(target: str) -> Any:  # noqa: ANN401 - what these rules read of an engine's config
    backend, _, arch = target.partition("@")
    return SimpleNamespace(
        target=target, backend=backend, arch=arch, backend_version="1.31.1", portability=None
    )


class Runtime:
    """What the command asks of ONNX Runtime; ``loads``: what a session gets in the end."""

    __version__ = "1.31.1"

    def SessionOptions(self) -> SimpleNamespace:  # noqa: N802 - the runtime's own name
        return SimpleNamespace(register_custom_ops_library=self.asked.append)

    def __init__(self, available: list[str], loads: list[str]) -> None:
        self.available, self.loads = available, loads
        self.asked: list[str] = []

    def get_available_providers(self) -> list[str]:
        return self.available

    def preload_dlls(self) -> None:
        self.asked.append("preload")

    def InferenceSession(  # noqa: N802 - the runtime's own name
        self, _path: str, _options: object, *, providers: list[str], enable_fallback: int
    ) -> SimpleNamespace:
        assert not enable_fallback
        self.asked += providers
        return SimpleNamespace(get_providers=lambda: self.loads)


def session(runtime: Runtime, target: str, *libraries: Path) -> Any:  # noqa: ANN401 - the runtime's own
    installed: Any = SimpleNamespace(config=config(target), engine="model.onnx")
    return opened(runtime, installed, libraries)


def test_an_engine_of_another_runtime_and_one_for_another_gpu_are_refused() -> None:
    for target, code in (
        ("tensorrt-rtx@sm_89", "target_not_run_here"),
        ("onnxruntime@sm_90", "gpu_differs"),
    ):
        with pytest.raises(FarmError) as refused:
            require_runs_here(config(target), lambda: ADA)
        assert refused.value.code == code
        assert exit_code_of(refused.value) is ExitCode.THIS_MACHINE


def test_no_gpu_is_looked_for_where_the_engine_needs_none() -> None:
    looks = []

    def look() -> Host:
        looks.append(ADA)
        return ADA

    require_runs_here(config("onnxruntime@cpu"), look)
    assert not looks
    require_runs_here(config("onnxruntime@sm_89"), look)
    assert looks == [ADA]


def test_an_engine_for_a_gpu_gets_cuda_first_with_its_libraries_loaded() -> None:
    runtime = Runtime([CUDA, CPU], [CUDA, CPU])

    session(runtime, "onnxruntime@sm_89")

    assert runtime.asked == ["preload", CUDA, CPU]


def test_the_engine_is_opened_after_the_plugins_that_it_needs() -> None:
    runtime = Runtime([CPU], [CPU])

    session(runtime, "onnxruntime@cpu", Path("/libone.so"), Path("/libtwo.so"))

    assert runtime.asked == ["/libone.so", "/libtwo.so", CPU]


@pytest.mark.parametrize(
    ("available", "loads"),
    [([CPU], [CPU]), ([CUDA, CPU], [CPU])],
    ids=["built without CUDA", "fell back"],
)
def test_it_is_never_run_on_the_processor_instead(available: list[str], loads: list[str]) -> None:
    with pytest.raises(FarmError) as refused:
        session(Runtime(available, loads), "onnxruntime@sm_89")

    assert refused.value.code == "engine_load_failed"
