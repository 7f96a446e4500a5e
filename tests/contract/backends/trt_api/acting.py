"""A stand-in that goes through a build as a listener sees it, and writes what begins as a plan.

Each library that it loads has one operator, which is called like its file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.contract.backends.trt_api.described import Api


class Sink:
    """Hears how far a build is."""

    def __init__(self, *, stopping: bool = False) -> None:
        self.stopping = stopping
        self.said: list[float | None] = []

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        self.said.append(fraction)
        assert phase
        assert not detail


def plan(version: str) -> bytes:
    """Return a file that begins as a plan of a version does."""
    head = bytearray(64)
    head[:4] = b"ftrt"
    head[24:28] = bytes(int(part) for part in version.split("."))
    return bytes(head) + b"engine"


def acting(version: str, **more: Callable[..., Any]) -> Api:
    """Return a stand-in that remembers flags and limits, and builds what begins as a plan."""
    flags: dict[Any, bool] = {}
    limits: dict[Any, int] = {}
    creators: list[Any] = []

    def built(builder: Any, network: Any, config: Any, writer: Any) -> bool:  # noqa: ANN401 - stand-ins
        assert network is not None
        monitor = config.progress_monitor
        monitor.phase_start("Building", None, 2)
        monitor.phase_start("Inner", "Building", 1)
        going = monitor.step_complete("Building", 0)
        monitor.phase_finish("Building")
        builder.error_recorder.report_error(None, "a word")
        builder.error_recorder.clear()
        return bool(going) and writer.write(plan(version)) > 0

    acts: dict[str, Callable[..., Any]] = {
        "IBuilderConfig.set_flag": lambda _self, flag: flags.update({flag: True}),
        "IBuilderConfig.clear_flag": lambda _self, flag: flags.update({flag: False}),
        "IBuilderConfig.get_flag": lambda _self, flag: flags.get(flag, False),
        "IBuilderConfig.set_memory_pool_limit": lambda _self, pool, size: limits.update(
            {pool: size}
        ),
        "IBuilderConfig.get_memory_pool_limit": lambda _self, pool: limits[pool],
        "Builder.build_serialized_network_to_stream": built,
        "ICudaEngine.device_memory_size_v2": lambda _self: 4096,
        "IPluginRegistry.all_creators": lambda _self: list(creators),
        "OnnxParser.get_used_vc_plugin_libraries": lambda _self: [],
    }

    def loaded(_registry: Any, path: str) -> object:  # noqa: ANN401 - a stand-in
        made = api.module.IPluginCreatorV3One()
        made.name, made.plugin_version, made.plugin_namespace = Path(path).stem, "1", ""
        creators.append(made)
        return object()

    acts["IPluginRegistry.load_library"] = loaded
    api = Api(version, acts | {name.replace("__", "."): act for name, act in more.items()})
    return api
