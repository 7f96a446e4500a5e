"""Put a recipe's compile options on a builder's config, by the runtime's own names.

What the runtime says no to is never ignored: it is told in its own words, and nothing is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from enginefarm.compile_options import CompileOptions, Refit

KIB, MIB = 1 << 10, 1 << 20

_FLAGS = {
    "strip_plan": "STRIP_PLAN",
    "weight_streaming": "WEIGHT_STREAMING",
    "version_compatible": "VERSION_COMPATIBLE",
    "exclude_lean_runtime": "EXCLUDE_LEAN_RUNTIME",
    "sparse_weights": "SPARSE_WEIGHTS",
    "tf32": "TF32",
    "direct_io": "DIRECT_IO",
    "strict_nans": "STRICT_NANS",
    "monitor_memory": "MONITOR_MEMORY",
    "distributive_independence": "DISTRIBUTIVE_INDEPENDENCE",
    "disable_compilation_cache": "DISABLE_COMPILATION_CACHE",
}
_POOLS = {
    "workspace_mib": ("WORKSPACE", MIB),
    "tactic_dram_mib": ("TACTIC_DRAM", MIB),
    "tactic_shared_memory_kib": ("TACTIC_SHARED_MEMORY", KIB),
}
# Each option and the config's attribute for it.
_PLAIN = {
    "optimization_level": "builder_optimization_level",
    "max_aux_streams": "max_aux_streams",
    "max_num_tactics": "max_num_tactics",
    "avg_timing_iterations": "avg_timing_iterations",
    "build_route": "build_route",
    "l2_limit_for_tiling_bytes": "l2_limit_for_tiling",
}
# The names of our members are those of the runtime's.
_CHOICES = {
    "tiling_optimization_level": ("tiling_optimization_level", "TilingOptimizationLevel"),
    "profiling_verbosity": ("profiling_verbosity", "ProfilingVerbosity"),
    "hardware_compatibility": ("hardware_compatibility_level", "HardwareCompatibilityLevel"),
    "runtime_platform": ("runtime_platform", "RuntimePlatform"),
}
_REFIT = {Refit.ALL: "REFIT", Refit.IDENTICAL: "REFIT_IDENTICAL"}


def apply(trt: ModuleType, config: Any, options: CompileOptions) -> list[str]:  # noqa: ANN401 - the runtime's class
    """Set every option that is given; return those that the config does not have afterwards."""
    flags = _set_flags(trt, config, options)
    values = _set_values(trt, config, options)
    pools = _set_pools(trt, config, options)
    return [name for rows in (flags, values, pools) for name, holds in rows if not holds]


def _set_flags(
    trt: ModuleType,
    config: Any,  # noqa: ANN401 - the runtime's class
    options: CompileOptions,
) -> Iterator[tuple[str, bool]]:
    wanted = {name: (flag, getattr(options, name)) for name, flag in _FLAGS.items()}
    if options.refit is not None:
        wanted["refit"] = (_REFIT[options.refit], True)
    for name, (member, value) in wanted.items():
        if value is None:
            continue
        flag = getattr(trt.BuilderFlag, member)
        if value:
            config.set_flag(flag)
        else:
            config.clear_flag(flag)
        yield name, bool(config.get_flag(flag)) is value


def _set_values(
    trt: ModuleType,
    config: Any,  # noqa: ANN401 - the runtime's class
    options: CompileOptions,
) -> Iterator[tuple[str, bool]]:
    values = {
        name: (attribute, getattr(options, name))
        for name, attribute in _PLAIN.items()
        if getattr(options, name) is not None
    }
    for name, (attribute, kind) in _CHOICES.items():
        chosen = getattr(options, name)
        if chosen is not None:
            values[name] = (attribute, getattr(getattr(trt, kind), chosen.name))
    for name, (attribute, value) in values.items():
        setattr(config, attribute, value)
        yield name, getattr(config, attribute) == value


def _set_pools(
    trt: ModuleType,
    config: Any,  # noqa: ANN401 - the runtime's class
    options: CompileOptions,
) -> Iterator[tuple[str, bool]]:
    for name, (member, unit) in _POOLS.items():
        asked = getattr(options, name)
        if asked is not None:
            pool = getattr(trt.MemoryPoolType, member)
            config.set_memory_pool_limit(pool, asked * unit)
            yield name, config.get_memory_pool_limit(pool) == asked * unit
