"""How an engine is built: the compile options by name, and which backend knows which of them.

There is none for a precision: that is a property of the model file (see ``precision``). A backend's
newest version may know more than the one that a node has; ``SINCE`` says which came when.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from enginefarm.numbers import Whole


class GraphOptimization(StrEnum):
    """How far ONNX Runtime rewrites the graph before it is saved."""

    NONE = "none"
    BASIC = "basic"
    EXTENDED = "extended"
    ALL = "all"


class Tiling(StrEnum):
    """How long TensorRT looks for a way to compute in tiles that stay in the L2 cache."""

    NONE = "none"
    FAST = "fast"
    MODERATE = "moderate"
    FULL = "full"


class Refit(StrEnum):
    """Which weights may be changed in a finished engine: all, or only for the same values."""

    ALL = "all"
    IDENTICAL = "identical"


class HardwareCompatibility(StrEnum):
    """On which other GPUs an engine runs than on those of the model it was built on."""

    NONE = "none"
    AMPERE_PLUS = "ampere-plus"
    SAME_COMPUTE_CAPABILITY = "same-compute-capability"


class Verbosity(StrEnum):
    """How much of its layers an engine can tell afterwards."""

    NONE = "none"
    LAYER_NAMES_ONLY = "layer-names-only"
    DETAILED = "detailed"


class RuntimePlatform(StrEnum):
    """Where the engine is run; what is built for another system cannot be opened by its node."""

    SAME_AS_BUILD = "same-as-build"
    WINDOWS_AMD64 = "windows-amd64"


class TimingReuse(StrEnum):
    """What a build does with the timings that earlier builds of its tenant have left."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


BuildRoute = Annotated[
    str,
    StringConstraints(
        max_length=1000, pattern=r"^-[A-Za-z0-9_:.]+=[A-Za-z0-9_.,]+( -[A-Za-z0-9_:.]+=[\w.,]+)*$"
    ),
]
Count = Annotated[Whole, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[Whole, Field(ge=1, le=2**31 - 1)]


class CompileOptions(BaseModel):
    """How to build. ``None`` means the backend's own default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    optimization_level: Annotated[Whole, Field(ge=0, le=5)] | None = None
    workspace_mib: Annotated[Whole, Field(ge=1, le=1 << 20)] | None = None
    graph_optimization: GraphOptimization | None = None
    tactic_dram_mib: Annotated[Whole, Field(ge=1, le=1 << 20)] | None = None
    tactic_shared_memory_kib: Annotated[Whole, Field(ge=1, le=1 << 20)] | None = None
    tiling_optimization_level: Tiling | None = None
    l2_limit_for_tiling_bytes: Annotated[Whole, Field(ge=1, le=1 << 40)] | None = None
    max_aux_streams: Count | None = None
    max_num_tactics: Positive | None = None
    avg_timing_iterations: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    profiling_verbosity: Verbosity | None = None
    hardware_compatibility: HardwareCompatibility | None = None
    runtime_platform: RuntimePlatform | None = None
    refit: Refit | None = None
    strip_plan: bool | None = Field(
        default=None, description="Leave out the weights; a refit puts them in again."
    )
    weight_streaming: bool | None = None
    version_compatible: bool | None = Field(
        default=None, description="Newer versions of the same major can run the engine."
    )
    exclude_lean_runtime: bool | None = None
    serialize_plugins: bool | None = Field(
        default=None,
        description="The engine carries the plugin libraries that it was built with.",
    )
    sparse_weights: bool | None = None
    tf32: bool | None = Field(default=None, description="false: fp32 is computed as fp32.")
    direct_io: bool | None = None
    strict_nans: bool | None = None
    monitor_memory: bool | None = None
    distributive_independence: bool | None = None
    disable_compilation_cache: bool | None = None
    timing_cache: TimingReuse | None = Field(
        default=None, description="required: nothing is timed; what is not in the cache fails."
    )
    build_route: BuildRoute | None = Field(
        default=None, description="Knobs of TensorRT's compiler, as it lists them itself."
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.exclude_lean_runtime and not self.version_compatible:
            message = "exclude_lean_runtime leaves out what only version_compatible puts in"
            raise ValueError(message)
        if self.serialize_plugins and not self.version_compatible:
            message = "serialize_plugins puts libraries into what only version_compatible makes"
            raise ValueError(message)
        if self.timing_cache is TimingReuse.REQUIRED and self.optimization_level == 0:
            message = "timing_cache required cannot be: level 0 looks into no cache"
            raise ValueError(message)
        return self


_PORTABLE = frozenset({"optimization_level", "workspace_mib"})
_ALL = frozenset(CompileOptions.model_fields)
OPTIONS_OF_BACKEND: dict[str, frozenset[str]] = {
    "onnxruntime": frozenset({"graph_optimization"}),
    "tensorrt-rtx": _PORTABLE,
    "tensorrt": _ALL - {"graph_optimization"},
    "tensorrt-llm": _PORTABLE,
}
"""Which compile options a backend listens to; one that it ignores is not in its key."""

UNTIMED = frozenset(
    {
        *("exclude_lean_runtime", "max_aux_streams", "max_num_tactics", "monitor_memory"),
        *("optimization_level", "profiling_verbosity", "serialize_plugins"),
        *("tactic_dram_mib", "tactic_shared_memory_kib", "timing_cache", "workspace_mib"),
    }
)
"""Options that leave a timing of a kernel what it is; all others part the caches."""

SINCE: dict[str, dict[str, tuple[int, ...]]] = {"tensorrt": {"build_route": (11, 1)}}
"""From which version on a backend knows an option, where it is not all that the farm takes."""


OPENED_BY = frozenset({"strip_plan", "version_compatible"})
"""What who opens an engine must know: whether its weights, and code for the host, are in it."""


def opened_by(backend: str, options: CompileOptions) -> dict[str, Any]:
    """Return those options of a build that decide how its engine is opened: mostly none."""
    heard = OPENED_BY & OPTIONS_OF_BACKEND[backend]
    return {name: True for name in sorted(heard) if getattr(options, name)}


def never_run(backend: str, options: CompileOptions) -> str | None:
    """Say why no node can ever run an engine that is built so, or None."""
    heard = OPTIONS_OF_BACKEND[backend]
    if options.strip_plan and "strip_plan" in heard:
        return "not run: its weights are left out (strip_plan), and a refit must put them in first"
    if options.runtime_platform is RuntimePlatform.WINDOWS_AMD64 and "runtime_platform" in heard:
        return "not run: it is built for Windows (runtime_platform), where no node runs"
    return None


def unknown_to(backend: str, version: str, options: CompileOptions) -> list[str]:
    """Return the options that are asked for and that a backend has, but not yet in its version."""
    since = SINCE.get(backend, {})
    asked = options.model_dump(exclude_none=True)
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return sorted(name for name in asked if name in since and numbers < since[name])


def first_version(backend: str, option: str) -> str:
    """Return the version in which an option came, as people write it."""
    return ".".join(str(part) for part in SINCE[backend][option])
