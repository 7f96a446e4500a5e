"""Every name and argument that the source uses of TensorRT is there in the versions it claims.

TensorRT's own libraries are on no machine of these tests, so nothing is built here. The recorded
descriptions were read off NVIDIA's real bindings (``trt_api/describe.py``); a stand-in that has
exactly what a version has goes through the whole sequence of calls, once for each option.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginefarm.compile_options import OPTIONS_OF_BACKEND, SINCE, CompileOptions, unknown_to
from enginefarm.errors import JobFailed
from enginefarm.spec import BuildSpec, ShapeRange
from enginefarm.state import Stage
from enginefarm.target import Target
from enginefarm.target_text import Portability
from tasks.messages import Device
from tasks.recipe import Made, recipe_for
from tests.contract.backends.trt_api.acting import Sink, acting, plan
from tests.contract.backends.trt_api.described import VERSIONS, description
from workers.backends.base import ModelSource
from workers.backends.tensorrt import TensorRT

ROOT = Path(__file__).parents[3]
SOURCES = [
    *sorted((ROOT / "workers/backends/trt").glob("*.py")),
    ROOT / "workers/backends/tensorrt.py",
]
TARGET = Target.parse("tensorrt@sm_89")
PROFILES = [{"x": ShapeRange(min=[1, 16], opt=[4, 16], max=[8, 16])}]
GPU = Device(arch="sm_89", name="NVIDIA L4")
# What a variable of the source is, by its name: the house calls each by one name only.
RECEIVERS = {
    "builder": "Builder",
    "config": "IBuilderConfig",
    "context": "IExecutionContext",
    "creator": "IPluginCreatorV3One",
    "engine": "ICudaEngine",
    "error": "ParserError",
    "inspector": "EngineInspector",
    "made": "IOptimizationProfile",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
    "registry": "IPluginRegistry",
    "runtime": "Runtime",
    "tensor": "ITensor",
}
PRECISIONS = {"FP16", "BF16", "INT8", "FP8", "INT4", "FP4", "int8_calibrator", "EXPLICIT_BATCH"}
EXAMPLES: dict[str, list[Any]] = {"build_route": ["-conv_use_long_w=off -kgen:codegen:cuda_tile=2"]}


def source(tmp_path: Path, options: dict[str, Any] | None = None) -> ModelSource:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"a model")
    return ModelSource(path, TARGET, PROFILES, CompileOptions.model_validate(options or {}))


def values(name: str) -> list[Any]:
    """Return a value of each kind that an option can have."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    kind: Any = CompileOptions.model_fields[name].annotation
    inner = next(each for each in getattr(kind, "__args__", (kind,)) if each is not type(None))
    if inner is bool:
        return [True, False]
    return list(inner) if hasattr(inner, "__members__") else [1]


def every_option() -> Iterator[dict[str, Any]]:
    yield {}
    for name in sorted(OPTIONS_OF_BACKEND["tensorrt"]):
        needing = {"exclude_lean_runtime", "serialize_plugins"}
        with_it = {"version_compatible": True} if name in needing else {}
        rows = (with_it | {name: value} for value in values(name))
        # What needs a timing cache is built in test_trt_timing.
        yield from (row for row in rows if row != {"timing_cache": "required"})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", list(every_option()), ids=str)
def test_the_whole_sequence_uses_only_what_the_version_has(
    tmp_path: Path, version: str, options: dict[str, Any]
) -> None:
    asked = source(tmp_path, options)
    if unknown_to("tensorrt", version, asked.options):
        pytest.skip(f"{version} has no {options}: the farm refuses it when it is asked for")
    api, sink, out = acting(version), Sink(), tmp_path / "out"
    out.mkdir()
    backend = TensorRT(api.module, has_gpu=True)

    assert backend.describe([GPU]).builds == backend.describe([GPU]).measures == ["sm_89"]
    assert backend.describe([]).measures == []
    assert backend.take_plugin(tmp_path / "FarmScale.so") == ["FarmScale"]
    assert backend.check(asked) == []
    compiled = backend.compile(asked, out, sink)

    assert compiled.path.read_bytes() == plan(version)
    abroad = options.get("runtime_platform") == "windows-amd64"
    assert (compiled.inspection_reason is not None) is abroad
    assert compiled.device_memory_bytes == (None if abroad else 4096)
    assert abroad or json.loads((out / "layers.json").read_text()) == {}
    assert sink.said[-1] == 1.0
    assert "Builder.build_serialized_network_to_stream" in api.used


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("portability", Portability)
def test_what_a_target_is_portable_by_is_on_the_config_when_it_builds(
    tmp_path: Path, version: str, portability: Portability
) -> None:
    target = Target.parse(f"{TARGET}:l4+{portability}")
    digest, levels = "sha256:" + "a" * 64, []
    spec = BuildSpec.model_validate({"model": digest, "targets": [str(target)]})
    recipe = recipe_for(Stage.COMPILE, spec, target, version, {"digest": digest}, Made())
    asked = replace(source(tmp_path, recipe["options"]), target=target)

    def built(_builder: Any, _network: Any, config: Any, writer: Any) -> bool:  # noqa: ANN401 - stand-ins
        levels.append(config.hardware_compatibility_level)
        return bool(writer.write(plan(version)))

    api = acting(version, Builder__build_serialized_network_to_stream=built)
    TensorRT(api.module, has_gpu=True).compile(asked, tmp_path, Sink())

    assert levels == [getattr(api.module.HardwareCompatibilityLevel, portability.name)]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_parser_refuses_is_told(tmp_path: Path, version: str) -> None:
    said: dict[str, Callable[..., Any]] = {
        "OnnxParser__supports_model_v2": lambda *_: False,
        "OnnxParser__parse_from_file": lambda *_: False,
        "OnnxParser__num_errors": lambda _self: 1,
        "ParserError__desc": lambda _self: "Plugin not found, are the plugin name right?",
        "ParserError__node_operator": lambda _self: "Magic",
        "ParserError__node_name": lambda _self: "here",
    }
    backend = TensorRT(acting(version, **said).module, has_gpu=True)

    (found,) = backend.check(source(tmp_path))
    with pytest.raises(JobFailed) as refused:
        backend.compile(source(tmp_path), tmp_path, Sink())

    assert "Magic" in found.message
    assert found.where == "here"
    assert refused.value.code == "unsupported_operator"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancel_ends_the_build_and_leaves_no_engine(tmp_path: Path, version: str) -> None:
    backend = TensorRT(acting(version).module, has_gpu=True)
    with pytest.raises(JobFailed) as stopped:
        backend.compile(source(tmp_path), tmp_path, Sink(stopping=True))
    assert stopped.value.code == "cancelled"
    assert not (tmp_path / "model.plan").exists()


def test_an_option_that_the_runtime_does_not_keep_is_refused_by_its_name(tmp_path: Path) -> None:
    api = acting(VERSIONS[0], IBuilderConfig__get_flag=lambda *_: False)
    with pytest.raises(JobFailed) as refused:
        TensorRT(api.module, has_gpu=True).compile(
            source(tmp_path, {"sparse_weights": True}), tmp_path, Sink()
        )
    assert refused.value.code == "option_refused"
    assert "options.compile.sparse_weights" in refused.value.message


def test_an_engine_of_another_version_is_not_taken(tmp_path: Path) -> None:
    api = acting(VERSIONS[0])
    api.module.__version__ = "10.13.3.10"
    with pytest.raises(JobFailed) as refused:
        TensorRT(api.module, has_gpu=True).compile(source(tmp_path), tmp_path, Sink())
    assert refused.value.code == "engine_malformed"


@pytest.mark.parametrize("version", ["8.6.1.6", "10.12.0.36", "12.0.0.1"])
def test_a_version_that_nothing_was_checked_against_is_not_offered(version: str) -> None:
    api = acting(VERSIONS[0])
    api.module.__version__ = version
    with pytest.raises(RuntimeError, match=version):
        TensorRT(api.module, has_gpu=True).describe([GPU])


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        ([Device(arch="cpu", name="EPYC")], "none is visible"),
        ([GPU, Device(arch="sm_86", name="NVIDIA A10")], "one node for each kind"),
        ([GPU, Device(arch="sm_89", name="NVIDIA L40S")], "one node for each kind"),
        ([Device(arch="sm_70", name="Tesla V100")], "sm_70"),
    ],
)
def test_a_node_offers_only_the_one_gpu_that_an_engine_would_be_built_on(
    devices: list[Device], says: str
) -> None:
    backend = TensorRT(acting(VERSIONS[0]).module, has_gpu=True)
    with pytest.raises(RuntimeError, match=says):
        backend.describe(devices)


def _attributes() -> Iterator[tuple[str, str, str]]:
    """Give each attribute that the source takes of something of the runtime, with its place."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in RECEIVERS:
                    yield f"{path.name}:{node.lineno}", RECEIVERS[name], attr
                case ast.Attribute(
                    value=ast.Attribute(
                        value=ast.Name(id="trt") | ast.Attribute(attr="trt"), attr=kind
                    ),
                    attr=attr,
                ):
                    yield f"{path.name}:{node.lineno}", kind, attr
                case ast.Attribute(value=ast.Name(id="trt") | ast.Attribute(attr="trt"), attr=kind):
                    yield f"{path.name}:{node.lineno}", kind, ""


def _has(told: dict[str, Any], kind: str, attribute: str) -> bool:
    if kind not in told:
        return kind == "__version__"
    row = told[kind]
    known = {*row.get("enum", ()), *row.get("methods", ()), *row.get("properties", ())}
    return attribute in known | {*row.get("enums", ()), "", "__init__"}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_in_the_source_is_there_also_on_ways_that_no_build_took(version: str) -> None:
    told = description(version)
    used = list(_attributes())

    assert len(used) > 40
    assert not [row for row in used if not _has(told, row[1], row[2])]


def test_no_precision_flag_is_in_the_source() -> None:
    words = {
        word
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        for word in (getattr(node, "attr", None), getattr(node, "value", None))
        if isinstance(word, str)
    }
    assert "TF32" in words
    assert not PRECISIONS & words


def test_an_option_came_when_the_farm_says_that_it_came() -> None:
    for name, since in SINCE["tensorrt"].items():
        for version in VERSIONS:
            has = name in description(version)["IBuilderConfig"]["properties"]
            numbers = tuple(int(part) for part in version.split("."))
            assert has is (numbers >= since), (name, version)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda trt, _config: trt.BuilderFlag.FP16_NOT,
        lambda _trt, config: config.max_workspace_size,
        lambda trt, config: config.set_flag(trt.BuilderFlag.REFIT, True),
        lambda trt, config: config.set_flag(flags=trt.BuilderFlag.REFIT),
        lambda _trt, config: config.set_flag(4),
        lambda _trt, config: setattr(config, "builder_optimisation_level", 3),
        lambda _trt, config: setattr(config, "builder_optimization_level", "3"),
        lambda _trt, config: setattr(config, "num_optimization_profiles", 3),
        lambda trt, _config: trt.Builder("no logger"),
        lambda trt, _config: type("Monitor", (trt.IProgressMonitor,), {"phase_begin": print}),
        lambda trt, _config: type(
            "Monitor", (trt.IProgressMonitor,), {"step_complete": lambda _self, name: name}
        ),
        lambda trt, config: setattr(
            config, "progress_monitor", trt.IProgressMonitor.__new__(trt.IProgressMonitor)
        ),
    ],
    ids=range(12),
)
def test_the_stand_in_refuses_what_the_binder_would(wrong: Callable[[Any, Any], Any]) -> None:
    trt = acting("11.4.0.106").module
    logger = type("Logger", (trt.ILogger,), {"log": lambda _self, _severity, _msg: None})()
    config = trt.Builder(logger).create_builder_config()

    assert config.set_flag(flag=trt.BuilderFlag.REFIT) is None
    with pytest.raises((AttributeError, TypeError)):
        wrong(trt, config)


def test_no_runtime_of_nvidia_is_loaded_for_this() -> None:
    assert not {"tensorrt", "tensorrt_bindings"} & set(sys.modules)
