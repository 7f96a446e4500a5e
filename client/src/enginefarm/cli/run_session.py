"""Opening an engine for ``enginefarm run``: on the processor, or on the GPU that it is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from enginefarm.errors import FarmError, NotServed
from enginefarm.install import Installed
from enginefarm.install.host import Host, look_at_host, require_fit
from enginefarm.manifest import EngineConfig

RUNTIME = "onnxruntime"
CPU = "cpu"
_CPU_PROVIDER = "CPUExecutionProvider"
_CUDA_PROVIDER = "CUDAExecutionProvider"


def require_runs_here(config: EngineConfig, look: Callable[[], Host] = look_at_host) -> None:
    """Refuse an engine that this command or this machine cannot run.

    Raises:
        NotServed: it is for another runtime than ONNX Runtime (code ``target_not_run_here``).
        FarmError: it is for another GPU (code ``gpu_differs``).
    """
    if config.backend != RUNTIME:
        raise NotServed(
            f"An engine for {config.target} cannot be run by this command.",
            code="target_not_run_here",
            why=f"It runs engines for {RUNTIME} alone.",
            fix="Load it with its own runtime on a machine of that architecture.",
        )
    if config.arch != CPU:
        require_fit(config, look())


def opened(
    runtime: Any,  # noqa: ANN401 - ONNX Runtime's own
    installed: Installed,
    libraries: Sequence[Path] = (),
) -> Any:  # noqa: ANN401 - as above
    """Return a session on the engine, with the plugins that it needs.

    Raises:
        FarmError: the runtime of this machine does not load it (code ``engine_load_failed``).
    """
    config = installed.config
    quiet = runtime.SessionOptions()
    # What it refuses is told once, and by us.
    quiet.log_severity_level = 4
    providers = [_CPU_PROVIDER] if config.arch == CPU else _with_cuda(runtime, config)
    try:
        for library in libraries:
            quiet.register_custom_ops_library(str(library))
        session = runtime.InferenceSession(
            str(installed.engine), quiet, providers=providers, enable_fallback=0
        )
    except Exception as error:
        raise FarmError(
            f"The ONNX Runtime of this machine, {runtime.__version__}, does not load the engine.",
            code="engine_load_failed",
            why=f"{first_line(error)}. It was built with {config.backend_version}.",
            fix=f"Install onnxruntime {config.backend_version} or newer.",
        ) from error
    if providers[0] not in session.get_providers():
        # The runtime would go on without the GPU and say so only in a log line.
        raise _no_cuda(config, "CUDA or the GPU cannot be used here, and it fell back to the CPU.")
    return session


def _with_cuda(runtime: Any, config: EngineConfig) -> list[str]:  # noqa: ANN401 - as above
    if _CUDA_PROVIDER not in runtime.get_available_providers():
        raise _no_cuda(config, "The ONNX Runtime of this machine was built without CUDA.")
    # CUDA's libraries may come from packages; they are not found unless they are loaded first.
    runtime.preload_dlls()
    return [_CUDA_PROVIDER, _CPU_PROVIDER]


def _no_cuda(config: EngineConfig, why: str) -> FarmError:
    return FarmError(
        f"An engine for {config.target} needs an ONNX Runtime that uses the GPU.",
        code="engine_load_failed",
        why=why,
        fix="Install onnxruntime-gpu[cuda,cudnn] in the place of onnxruntime.",
    )


def first_line(error: Exception) -> str:
    """Return the first line of what a library says, without its full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
