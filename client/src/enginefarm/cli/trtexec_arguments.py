"""Read the flags of a trtexec command line into profiles and compile options, or refuse by name."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from pydantic import JsonValue

from enginefarm.cli.plugin_arguments import library_digest
from enginefarm.cli.trtexec_profiles import PROFILED, Profiles, unreadable
from enginefarm.cli.trtexec_refused import REFUSED, refused_pool
from enginefarm.compile_options import HardwareCompatibility, RuntimePlatform, Tiling, Verbosity
from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean
from enginefarm.spec import BenchmarkOptions

MS = 1000
USUAL_MOST_MS = BenchmarkOptions().max_duration_ms
_DLA_POOLS = {"dlasram", "dlalocaldram", "dlaglobaldram"}
_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_POOLS = {
    "workspace": ("workspace_mib", 1 << 20),
    "tacticsharedmem": ("tactic_shared_memory_kib", 1 << 10),
}
Options = dict[str, JsonValue]


@dataclass
class Trtexec:
    """What the flags ask for, in the farm's words."""

    profiles: list[dict[str, dict[str, list[int]]]] = field(default_factory=list)
    compile: Options = field(default_factory=dict)
    benchmark: Options = field(default_factory=dict)
    plugins: list[str] = field(default_factory=list)


def _number(option: str) -> Callable[[str], Options]:
    return lambda value: {option: int(value)}


def _choice(option: str, values: dict[str, str]) -> Callable[[str], Options]:
    return lambda value: {option: values[value.lower()]}


def _pools(text: str) -> Options:
    """Read ``workspace:1024,tacticSharedMem:48K``; without a unit it is MiB."""
    read: Options = {}
    for part in text.split(","):
        pool, _, size = part.partition(":")
        if pool.lower() in _DLA_POOLS:
            raise refused_pool(part)
        option, unit = _POOLS[pool.lower()]
        suffix = size[-1:].upper()
        scale = _UNITS[suffix] if suffix in _UNITS else _UNITS["M"]
        count = float(size[:-1] if suffix in _UNITS else size) * scale / unit
        if not count.is_integer():
            raise ValueError(part)
        read[option] = int(count)
    return read


def _own_choice(option: str) -> Callable[[str], Options]:
    """Read a number; -1 is the runtime's own choice."""
    return lambda value: {} if value == "-1" else {option: int(value)}


def _bare(options: Options) -> Callable[[str], Options]:
    """Take a flag that has no value."""

    def take(value: str) -> Options:
        if value:
            raise ValueError(value)
        return options

    return take


def _duration(least_ms: int) -> Options:
    """Measure so long at least; the farm ends a measurement after its own most, or with that."""
    most = {"max_duration_ms": least_ms} if least_ms > USUAL_MOST_MS else {}
    return {"min_duration_ms": least_ms, **most}


_VALUED: dict[str, Callable[[str], Options]] = {
    "avgTiming": _number("avg_timing_iterations"),
    "builderOptimizationLevel": _number("optimization_level"),
    "hardwareCompatibilityLevel": _choice(
        "hardware_compatibility",
        {
            "none": HardwareCompatibility.NONE,
            "ampere+": HardwareCompatibility.AMPERE_PLUS,
            "samecomputecapability": HardwareCompatibility.SAME_COMPUTE_CAPABILITY,
        },
    ),
    "l2LimitForTiling": _number("l2_limit_for_tiling_bytes"),
    "maxAuxStreams": _own_choice("max_aux_streams"),
    "maxTactics": _own_choice("max_num_tactics"),
    "memPoolSize": _pools,
    "profilingVerbosity": _choice(
        "profiling_verbosity", {kind.value.replace("-", "_"): kind.value for kind in Verbosity}
    ),
    "runtimePlatform": _choice(
        "runtime_platform",
        {kind.value.replace("-", ""): kind.value for kind in RuntimePlatform},
    ),
    "setBuildRoute": lambda value: {"build_route": value},
    "tilingOptimizationLevel": lambda value: {
        "tiling_optimization_level": list(Tiling)[range(len(Tiling)).index(int(value))].value
    },
}
_SPARSITY: dict[str, Options] = {
    "enable": {"sparse_weights": True},
    "disable": {"sparse_weights": False},
}
_BARE: dict[str, Options] = {
    "allowWeightStreaming": {"weight_streaming": True},
    "directIO": {"direct_io": True},
    "distributiveIndependence": {"distributive_independence": True},
    "errorOnTimingCacheMiss": {"timing_cache": "required"},
    "excludeLeanRuntime": {"exclude_lean_runtime": True},
    "monitorMemory": {"monitor_memory": True},
    "noCompilationCache": {"disable_compilation_cache": True},
    "noBuilderCache": {"timing_cache": "off"},
    "noTF32": {"tf32": False},
    "refit": {"refit": "all"},
    "skipInference": {},
    "stripAllWeights": {"refit": "all", "strip_plan": True},
    "stripWeights": {"strip_plan": True},
    "stronglyTyped": {},
    "vc": {"version_compatible": True},
    "versionCompatible": {"version_compatible": True},
}
_MEASURED: dict[str, Callable[[str], Options]] = {
    "duration": lambda value: _duration(round(float(value) * MS)),
    "infStreams": lambda value: {"streams": [int(value)]},
    "iterations": _number("min_iterations"),
    "noCudaGraph": _bare({"cuda_graph": False}),
    "useCudaGraph": _bare({"cuda_graph": True}),
    "warmUp": lambda value: {"warmup_ms": round(float(value))},
}
_CARRIED = "setPluginsToSerialize"
_LIBRARIES = {"dynamicPlugins", "plugins", "staticPlugins", _CARRIED}
KNOWN = {*_VALUED, *_BARE, *PROFILED, *_MEASURED, *_LIBRARIES, "sparsity"}
"""Every flag that is taken; some of them say what the farm does in any case."""


def read(texts: Iterable[str]) -> Trtexec:
    """Read flags as they stand on a trtexec command line.

    Raises:
        InvalidRequest: a flag is none of trtexec's (``trtexec_flag_unknown``), has no place in a
            build (``trtexec_flag_refused``), is given twice or cannot be read.
    """
    asked, shapes, seen = Trtexec(), Profiles(), set[str]()
    for word in [word for text in texts for word in _words(text)]:
        name, equals, value = word.removeprefix("--").partition("=")
        _require_taken(word, name)
        if name in PROFILED:
            shapes.take(name, value, word)
            continue
        if name in _LIBRARIES:
            _take_library(asked, name, value, word)
            continue
        if name in seen:
            raise InvalidRequest(
                f"--trtexec gives --{name} twice.", code="named_twice", fix="Keep one of them."
            )
        seen.add(name)
        if name in _MEASURED:
            asked.benchmark |= _measured(name, value, word)
        else:
            asked.compile |= _options(name, value if equals else None, word)
    asked.profiles = shapes.whole()
    run_at: list[JsonValue] = [_listed(row) for row in shapes.run_at()]
    asked.benchmark |= {"shapes": run_at} if run_at else {}
    return asked


def _listed(shapes: dict[str, list[int]]) -> JsonValue:
    return {name: list[JsonValue](dims) for name, dims in shapes.items()}


def added(asked: dict[str, JsonValue], texts: Iterable[str]) -> dict[str, JsonValue]:
    """Return what is asked with what the flags of trtexec ask for beside it.

    Raises:
        InvalidRequest: as :func:`read`, or something is said in both ways (code ``named_twice``).
    """
    told = read(texts)
    options = asked["options"]
    if not isinstance(options, dict):
        return asked
    both, twice = dict(options), list[str]()
    plugins: Options = {"tensorrt": list[JsonValue](told.plugins)} if told.plugins else {}
    stages = {"compile": told.compile, "benchmark": told.benchmark, "plugins": plugins}
    for stage, more in stages.items():
        given = options.get(stage, {})
        if more and isinstance(given, dict):
            both[stage] = given | more
            twice += [f"options.{stage}.{name}" for name in sorted(set(given) & set(more))]
    if twice or (told.profiles and asked["profiles"]):
        what = twice[0] if twice else "The profiles"
        raise InvalidRequest(
            f"{what} {'is' if twice else 'are'} given twice: also by --trtexec.",
            code="named_twice",
            fix="Keep one of them.",
        )
    profiles: list[JsonValue] = [_plain(row) for row in told.profiles]
    return asked | {"profiles": profiles or asked["profiles"], "options": both}


def _plain(profile: dict[str, dict[str, list[int]]]) -> JsonValue:
    return {
        name: {end: list[JsonValue](dims) for end, dims in row.items()}
        for name, row in profile.items()
    }


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise unreadable(text) from error
    named = bool(words) and PurePath(words[0]).name == "trtexec"
    return words[1:] if named else words


def _require_taken(word: str, name: str) -> None:
    if word.startswith("--") and name in KNOWN:
        return
    if name in REFUSED:
        why = REFUSED[name]
        raise InvalidRequest(
            f"The farm does not take trtexec's --{name}.",
            code="trtexec_flag_refused",
            why=why.why,
            fix=why.fix,
            flag=name,
        )
    raise InvalidRequest(
        f"{word[:80]!r} is no flag of trtexec.",
        code="trtexec_flag_unknown",
        fix=did_you_mean(name, KNOWN | set(REFUSED)),
    )


def _options(name: str, value: str | None, word: str) -> Options:
    if name == "sparsity" and value == "force":
        raise InvalidRequest(
            "The farm does not take trtexec's --sparsity=force.",
            code="trtexec_flag_refused",
            why="It overwrites the model's weights; trtexec itself calls it deprecated.",
            fix="Prune the model, and give --sparsity=enable.",
            flag=name,
        )
    try:
        if name in _BARE and value is None:
            return _BARE[name]
        if value is None or name in _BARE:
            raise ValueError(word)
        return _SPARSITY[value] if name == "sparsity" else _VALUED[name](value)
    except (ValueError, KeyError, IndexError) as error:
        raise unreadable(word) from error


def _take_library(asked: Trtexec, name: str, value: str, word: str) -> None:
    """Take the digest of a library; the flags that load one differ only in when they do."""
    if not value:
        raise unreadable(word)
    found = library_digest(value)
    asked.plugins += [found] if found not in asked.plugins else []
    if name == _CARRIED:
        asked.compile["serialize_plugins"] = True


def _measured(name: str, value: str, word: str) -> Options:
    """Read a flag that says how an engine is measured."""
    try:
        return _MEASURED[name](value)
    except ValueError as error:
        raise unreadable(word) from error
