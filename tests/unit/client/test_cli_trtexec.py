"""The flags of trtexec become the farm's own options, or are refused by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginefarm.cli.trtexec_arguments import KNOWN, added, read
from enginefarm.cli.trtexec_refused import REFUSED
from enginefarm.compile_options import CompileOptions
from enginefarm.digest import digest_of
from enginefarm.errors import InvalidRequest
from enginefarm.spec import BenchmarkOptions, BuildSpec

SHAPES = "--minShapes=x:1x16 --optShapes=x:4x16 --maxShapes=x:8x16"
X = {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}


def asked(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a body
    return {"profiles": [], "options": {}} | more


def test_shapes_and_level_are_a_profile_and_an_option() -> None:
    body = added(asked(), [f"{SHAPES} --builderOptimizationLevel=4"])
    assert body["profiles"] == [{"x": X}]
    assert body["options"] == {"compile": {"optimization_level": 4}}


FLAGS: list[tuple[str, dict[str, Any]]] = [
    ("--memPoolSize=workspace:2048", {"workspace_mib": 2048}),
    ("--memPoolSize=workspace:1.5G,tacticSharedMem:48K", {"workspace_mib": 1536}),
    ("--memPoolSize=tacticSharedMem:1", {"tactic_shared_memory_kib": 1024}),
    ("--tilingOptimizationLevel=2", {"tiling_optimization_level": "moderate"}),
    ("--l2LimitForTiling=1000", {"l2_limit_for_tiling_bytes": 1000}),
    ("--sparsity=enable", {"sparse_weights": True}),
    ("--sparsity=disable", {"sparse_weights": False}),
    ("--noTF32", {"tf32": False}),
    ("--refit", {"refit": "all"}),
    ("--stripWeights", {"strip_plan": True}),
    ("--stripAllWeights", {"strip_plan": True, "refit": "all"}),
    ("--vc --excludeLeanRuntime", {"version_compatible": True, "exclude_lean_runtime": True}),
    ("--hardwareCompatibilityLevel=ampere+", {"hardware_compatibility": "ampere-plus"}),
    (
        "--hardwareCompatibilityLevel=sameComputeCapability",
        {"hardware_compatibility": "same-compute-capability"},
    ),
    ("--runtimePlatform=WindowsAMD64", {"runtime_platform": "windows-amd64"}),
    ("--runtimePlatform=SameAsBuild", {"runtime_platform": "same-as-build"}),
    ("--profilingVerbosity=layer_names_only", {"profiling_verbosity": "layer-names-only"}),
    ("--avgTiming=8 --maxAuxStreams=0", {"avg_timing_iterations": 8, "max_aux_streams": 0}),
    ("--maxTactics=-1 --maxAuxStreams=-1", {}),
    ("--maxTactics=30", {"max_num_tactics": 30}),
    ("--setBuildRoute='-a=b -c=d'", {"build_route": "-a=b -c=d"}),
    ("--allowWeightStreaming --monitorMemory", {"weight_streaming": True, "monitor_memory": True}),
    ("--errorOnTimingCacheMiss", {"timing_cache": "required"}),
    ("--noBuilderCache", {"timing_cache": "off"}),
    ("--stronglyTyped --skipInference", {}),
]


def test_streams_say_how_it_is_measured() -> None:
    body = added(asked(), ["--infStreams=4 --noTF32"])
    assert body["options"] == {"benchmark": {"streams": [4]}, "compile": {"tf32": False}}
    given = asked(options={"benchmark": {"streams": [1, 2]}})
    with pytest.raises(InvalidRequest) as twice:
        added(given, ["--infStreams=4"])
    assert (twice.value.code, twice.value.message) == (
        "named_twice",
        "options.benchmark.streams is given twice: also by --trtexec.",
    )
    with pytest.raises(InvalidRequest) as wrong:
        added(asked(), ["--infStreams"])
    assert wrong.value.code == "invalid_argument"


MEASURED: list[tuple[str, dict[str, Any]]] = [
    ("--useCudaGraph --warmUp=500 --iterations=100", {"cuda_graph": True, "warmup_ms": 500}),
    ("--noCudaGraph --duration=1.5", {"cuda_graph": False, "min_duration_ms": 1500}),
    ("--duration=60", {"min_duration_ms": 60_000, "max_duration_ms": 60_000}),
    ("--iterations=100 --infStreams=2", {"min_iterations": 100, "streams": [2]}),
]


@pytest.mark.parametrize(("text", "options"), MEASURED, ids=[row[0] for row in MEASURED])
def test_a_flag_that_measures_is_an_option_of_the_benchmark(
    text: str, options: dict[str, Any]
) -> None:
    told = read([text])
    assert options.items() <= told.benchmark.items()
    assert told.compile == {}
    window = BenchmarkOptions.model_validate(told.benchmark)
    assert window.min_duration_ms <= window.max_duration_ms


def test_a_whole_command_line_may_be_pasted() -> None:
    assert read([f"/usr/src/tensorrt/bin/trtexec {SHAPES} --noTF32"]) == read([SHAPES, "--noTF32"])
    with pytest.raises(InvalidRequest):
        read(["--noTF32 trtexec"])


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (f"{SHAPES} --shapes=x:2x16", [{"x": [2, 16]}]),
        (f"--shapes=x:2x16 {SHAPES}", [{"x": [2, 16]}]),
        (f"{SHAPES} --minShapes=n:1 --shapes=x:2x16", [{"x": [2, 16], "n": [1]}]),
        (f"{SHAPES} --shapes=x:2x16,n:1", [{"x": [2, 16], "n": [1]}]),
        (
            f"--profile=0 {SHAPES} --profile=1 --minShapes=x:9x16 --shapes=x:10x16",
            [{"x": [4, 16]}, {"x": [10, 16]}],
        ),
        ("--shapes=x:2x16", None),
        (SHAPES, None),
    ],
)
def test_shapes_beside_a_profile_are_where_it_is_measured(
    text: str, shapes: list[dict[str, list[int]]] | None
) -> None:
    told = read([text])
    assert told.benchmark.get("shapes") == shapes
    for row in told.profiles:
        assert {"min", "opt", "max"} == set(row["x"])


@pytest.mark.parametrize(("text", "options"), FLAGS, ids=[row[0] for row in FLAGS])
def test_a_flag_is_an_option_that_the_spec_takes(text: str, options: dict[str, Any]) -> None:
    told = read([text]).compile
    assert options.items() <= told.items()
    CompileOptions.model_validate(told)


def test_a_library_is_named_by_the_digest_of_its_file_and_is_not_sent(tmp_path: Path) -> None:
    first, second = tmp_path / "libscale.so", tmp_path / "libmore.so"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    named = f"--staticPlugins={first} --dynamicPlugins={second} --plugins={first}"
    digests = [digest_of(b"one"), digest_of(b"two")]
    assert added(asked(), [named])["options"] == {"plugins": {"tensorrt": digests}}
    carried = added(asked(), [f"--setPluginsToSerialize={first} --versionCompatible"])["options"]
    assert carried == {
        "compile": {"serialize_plugins": True, "version_compatible": True},
        "plugins": {"tensorrt": digests[:1]},
    }
    given = asked(options={"plugins": {"tensorrt": digests}})
    for text, code in (
        ("--staticPlugins", "invalid_argument"),
        (f"--staticPlugins={tmp_path}/absent.so", "plugin_unknown"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            added(asked(), [text])
        assert refused.value.code == code
    with pytest.raises(InvalidRequest) as twice:
        added(given, [f"--staticPlugins={first}"])
    assert (twice.value.code, twice.value.message.split()[0]) == (
        "named_twice",
        "options.plugins.tensorrt",
    )


def test_every_flag_that_is_taken_is_tried_here() -> None:
    tried = {word[2:].partition("=")[0] for text, _ in FLAGS for word in text.split()}
    assert {*KNOWN} - tried == {
        *("minShapes", "optShapes", "maxShapes", "shapes", "profile", "builderOptimizationLevel"),
        *("directIO", "distributiveIndependence", "noCompilationCache", "versionCompatible"),
        "infStreams",
        *("plugins", "staticPlugins", "dynamicPlugins", "setPluginsToSerialize"),
        *(word[2:].partition("=")[0] for text, _ in MEASURED for word in text.split()),
    }
    assert not KNOWN & set(REFUSED)


@pytest.mark.parametrize(
    ("text", "profiles"),
    [
        (SHAPES.replace("x:", "'x:0':"), [{"x:0": X}]),
        ("--shapes=x:4x16,n:1", [{"x": {key: [4, 16] for key in X}, "n": {key: [1] for key in X}}]),
        ("--minShapes=x:1x16 --maxShapes=x:8x16", [{"x": X | {"opt": [8, 16]}}]),
        ("--minShapes=x:1x16", [{"x": {key: [1, 16] for key in X}}]),
        (
            f"--profile=0 {SHAPES} --profile=1 --shapes=x:16x16",
            [{"x": X}, {"x": {key: [16, 16] for key in X}}],
        ),
        ("--refit", []),
    ],
)
def test_shapes_become_profiles_as_trtexec_reads_them(text: str, profiles: list[Any]) -> None:
    assert read([text]).profiles == profiles
    BuildSpec.model_validate(
        {"model": f"sha256:{'0' * 64}", "targets": ["tensorrt@sm_89"], "profiles": profiles}
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_place_is_refused_by_its_name_with_why(name: str) -> None:
    for text in (f"--{name}", f"--{name}=value"):
        with pytest.raises(InvalidRequest) as refused:
            read([text])
        assert refused.value.code == "trtexec_flag_refused"
        assert f"--{name}." in refused.value.message
        assert refused.value.why
        assert refused.value.fix


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("--fp16", "trtexec_flag_refused", "TensorRT 11.0 dropped it"),
        ("--fp16", "trtexec_flag_refused", "--precision fp16"),
        ("--int8", "trtexec_flag_refused", "--calibration"),
        ("--workspace=64", "trtexec_flag_refused", "TensorRT 10.0 dropped it"),
        ("--exposeDMA", "trtexec_flag_refused", "It measures"),
        ("--useCudaGraph=1", "invalid_argument", "useCudaGraph"),
        ("--duration=long", "invalid_argument", "duration"),
        ("--shapes=x:1 --shapes=x:2", "invalid_argument", "shapes"),
        ("--sparsity=force", "trtexec_flag_refused", "overwrites"),
        ("--buildOptimizationLevel=4", "trtexec_flag_unknown", "'builderOptimizationLevel'"),
        ("refit", "trtexec_flag_unknown", "'refit'"),
        ("--refit=1", "invalid_argument", "--refit=1"),
        ("--builderOptimizationLevel", "invalid_argument", "builderOptimizationLevel"),
        ("--tilingOptimizationLevel=4", "invalid_argument", "tiling"),
        ("--tilingOptimizationLevel=-1", "invalid_argument", "tiling"),
        ("--memPoolSize=workspace:1K", "invalid_argument", "workspace:1K"),
        ("--memPoolSize=dlaSRAM:1", "trtexec_flag_refused", "DLA"),
        ("--memPoolSize=magic:1", "invalid_argument", "magic"),
        ("--minShapes=x", "invalid_argument", "minShapes"),
        ("--minShapes=x:axb", "invalid_argument", "minShapes"),
        ("--minShapes=x:1 --minShapes=x:2", "invalid_argument", "minShapes"),
        ("--profile=1", "invalid_argument", "profile"),
        ("--refit --refit", "named_twice", "--refit"),
        ("--setBuildRoute='-a=b", "invalid_argument", "setBuildRoute"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, code: str, says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read([text])
    assert refused.value.code == code
    assert says in f"{refused.value.message} {refused.value.why} {refused.value.fix}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (asked(profiles=[{"x": X}]), SHAPES),
        (asked(options={"compile": {"refit": "all"}}), "--refit"),
    ],
)
def test_nothing_is_said_in_both_ways(body: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        added(body, [text])
    assert refused.value.code == "named_twice"


def test_without_flags_nothing_is_changed() -> None:
    body = asked(options={"compile": {"refit": "all"}, "benchmark": {"threads": 1}})
    assert added(body, []) == body
    both = added(body, ["--noTF32"])["options"]
    assert both == body["options"] | {"compile": {"refit": "all", "tf32": False}}
