"""TensorRT's plugin libraries, by its recorded API: what is loaded, refused, carried and told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enginefarm.compile_options import OPTIONS_OF_BACKEND, CompileOptions
from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from enginefarm.target import Target
from tests.contract.backends.bench import found
from tests.contract.backends.custom_operators import EMPTY, compiled
from tests.contract.backends.trt_api.acting import Sink, acting, plan
from tests.contract.backends.trt_api.described import VERSIONS, Api
from workers.backends.base import ModelSource, TakesPlugins
from workers.backends.tensorrt import TensorRT
from workers.backends.tensorrt_rtx import TensorRTRTX
from workers.settings import child_environment

# A library as TensorRT loads one, whose two operators tell their names and can do nothing else.
CREATORS = """
#include <cstdint>
namespace {
struct Told { char const* kind; int32_t major; int32_t minor; };
struct Creator {
  char const* name_; char const* version_; char const* space_;
  Creator(char const* n, char const* v, char const* s) : name_(n), version_(v), space_(s) {}
  virtual int32_t language() const noexcept { return 0; }
  virtual Told told() const noexcept { return Told{"PLUGIN CREATOR_V3ONE", 1, 0}; }
  virtual ~Creator() noexcept = default;
  virtual void* create(char const*, void const*, int32_t) noexcept { return nullptr; }
  virtual void const* fields() noexcept { return nullptr; }
  virtual char const* name() const noexcept { return name_; }
  virtual char const* version() const noexcept { return version_; }
  virtual char const* space() const noexcept { return space_; }
};
Creator scale("OwnScale", "1", ""), norm("OwnNorm", "2", "mine");
Creator* const all[] = {&scale, &norm};
}
extern "C" void* const* getCreators(int32_t& count) {
  count = 2;
  return reinterpret_cast<void* const*>(all);
}
extern "C" void setLoggerFinder(void*) {}
"""
LOADS = """
import os, sys
from pathlib import Path
from workers.backends.tensorrt_rtx import LABEL, _import_runtime
from workers.backends.trt import compiler
it = compiler.Compiler(_import_runtime(), "tensorrt-rtx", LABEL, has_gpu=False)
for path in map(Path, sys.argv[1:]):
    try:
        print(it.take_plugin(path))
    except Exception as error:
        print(error)
print(it.trt.Builder(it.logger).get_plugin_registry().get_creator("OwnNorm", "2", "mine").name)
print(len(it.trt.Runtime(it.logger).get_plugin_registry().all_creators_recursive) > 2, flush=True)
os._exit(0)
"""
TARGET = Target.parse("tensorrt@sm_89")
NOT_FOUND = {
    "OnnxParser__supports_model_v2": lambda *_: False,
    "OnnxParser__parse_from_file": lambda *_: False,
    "OnnxParser__num_errors": lambda _self: 1,
    "OnnxParser__supports_operator": lambda *_: False,
    "ParserError__desc": lambda _self: "Plugin not found, are the plugin name right?",
    "ParserError__node_operator": lambda _self: "Magic",
    "ParserError__node_name": lambda _self: "here",
}


def backend(version: str, **acts: Callable[..., Any]) -> TensorRT:
    return TensorRT(acting(version, **acts).module, has_gpu=True)


def source(tmp_path: Path, **options: Any) -> ModelSource:  # noqa: ANN401 - any option
    path = tmp_path / "model.onnx"
    path.write_bytes(b"a model")
    return ModelSource(path, TARGET, [], CompileOptions.model_validate(options))


def creator(api: Api, kind: str, name: str, version: str = "1", space: str = "") -> Any:  # noqa: ANN401 - a stand-in
    made = getattr(api.module, kind)()
    made.name, made.plugin_version, made.plugin_namespace = name, version, space
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_a_library_tells_its_operators_when_it_is_loaded(tmp_path: Path, version: str) -> None:
    there: list[Any] = []

    def load(_registry: object, _path: str) -> object:
        there.append(creator(api, "IPluginCreatorV3One", "Scale"))
        there.append(creator(api, "IPluginCreatorV3One", "Norm", "2", "mine"))
        return object()

    acts: dict[str, Callable[..., Any]] = {
        "IPluginRegistry__load_library": load,
        "IPluginRegistry__all_creators": lambda _self: list(there),
    }
    api = acting(version, **acts)
    there.append(creator(api, "IPluginCreatorV3One", "ROIAlign_TRT"))
    trt = TensorRT(api.module, has_gpu=True)
    assert isinstance(trt, TakesPlugins)
    assert trt.take_plugin(tmp_path / "lib.so") == ["Scale", "mine::Norm 2"]
    assert {"Builder", "get_plugin_registry", "IPluginRegistry.load_library"} <= api.used


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_no_plugin_of_this_kind_is_refused(tmp_path: Path, version: str) -> None:
    old = type("IPluginCreator", (), {"name": "Old", "plugin_version": "1", "plugin_namespace": ""})
    there: list[Any] = []

    def old_one(_registry: object, _path: str) -> object:
        there.append(old())
        return object()

    def refusing(_registry: object, path: str) -> None:
        trt._compiler.record.add_error(f"Unable to load library: {path}: file too short")

    for load, words in (
        (old_one, "Old: only operators with IPluginCreatorV3One"),
        (lambda *_: object(), "it adds no operator"),
        (refusing, "Unable to load library: lib.so: file too short"),
        (lambda *_: None, "no reason"),
    ):
        there.clear()
        acts: dict[str, Any] = {
            "IPluginRegistry__load_library": load,
            "IPluginRegistry__all_creators": lambda _self: list(there),
        }
        trt = backend(version, **acts)
        with pytest.raises(JobFailed) as refused:
            trt.take_plugin(tmp_path / "lib.so")
        assert (refused.value.code, refused.value.blame) == ("plugin_refused", Blame.NODE)
        assert words in refused.value.why
        assert not trt._compiler.plugins
        assert not trt._compiler.record.errors


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("options", "carried"),
    [
        ({}, None),
        ({"version_compatible": True}, ["/trt/libvc.so"]),
        ({"version_compatible": True, "serialize_plugins": True}, ["{}/Scale.so", "/trt/libvc.so"]),
        ({"version_compatible": True, "serialize_plugins": False}, ["/trt/libvc.so"]),
    ],
)
def test_a_version_compatible_engine_carries_what_was_asked_for_and_what_it_needs(
    tmp_path: Path, version: str, options: dict[str, bool], carried: list[str] | None
) -> None:
    found: list[Any] = []

    def built(_builder: Any, _network: Any, config: Any, writer: Any) -> bool:  # noqa: ANN401 - stand-ins
        found.append(config.plugins_to_serialize)
        return bool(writer.write(plan(version)))

    acts: dict[str, Any] = {
        "Builder__build_serialized_network_to_stream": built,
        "OnnxParser__get_used_vc_plugin_libraries": lambda _self: ["/trt/libvc.so"],
    }
    trt = backend(version, **acts)
    trt.take_plugin(tmp_path / "Scale.so")
    trt.compile(source(tmp_path, **options), tmp_path, Sink())
    assert found == [carried and [path.format(tmp_path) for path in carried]]


def test_what_is_to_be_carried_and_was_not_loaded_or_is_not_kept_is_refused(tmp_path: Path) -> None:
    asked = source(tmp_path, version_compatible=True, serialize_plugins=True)
    with pytest.raises(JobFailed) as refused:
        backend(VERSIONS[0]).compile(asked, tmp_path, Sink())
    assert (refused.value.code, refused.value.blame) == ("option_refused", Blame.PERSON)
    acts: dict[str, Any] = {"IBuilderConfig__plugins_to_serialize": lambda _self: []}
    trt = backend(VERSIONS[0], **acts)
    trt.take_plugin(tmp_path / "Scale.so")
    with pytest.raises(JobFailed) as refused:
        trt.compile(asked, tmp_path, Sink())
    assert "serialize_plugins" in refused.value.message


@pytest.mark.parametrize("version", VERSIONS)
def test_an_operator_that_no_plugin_has_is_told_with_what_the_plugins_have(
    tmp_path: Path, version: str
) -> None:
    trt = backend(version, **NOT_FOUND)
    trt.take_plugin(tmp_path / "Scale.so")
    (found,) = trt.check(source(tmp_path))
    assert (found.code, found.operator) == ("unsupported_operator", "Magic")
    assert "Scale.so (Scale)" in found.why
    with pytest.raises(JobFailed) as refused:
        trt.compile(source(tmp_path), tmp_path, Sink())
    assert "Scale.so (Scale)" in refused.value.why
    (alone,) = backend(version, **NOT_FOUND).check(source(tmp_path))
    assert "plugins" not in alone.why


def test_plugins_are_carried_by_tensorrt_alone_and_only_where_versions_are_compatible() -> None:
    assert {name for name, row in OPTIONS_OF_BACKEND.items() if "serialize_plugins" in row} == {
        "tensorrt"
    }
    with pytest.raises(ValueError, match="version_compatible"):
        CompileOptions.model_validate({"serialize_plugins": True})


def test_tensorrt_rtx_takes_no_plugins() -> None:
    assert not issubclass(TensorRTRTX, TakesPlugins)


def test_a_real_registry_loads_a_library_for_builders_and_runtimes_and_refuses_what_is_none(
    tmp_path: Path,
) -> None:
    if "tensorrt-rtx" in found().absent:
        pytest.skip("no runtime of NVIDIA's loads here")
    library = compiled(tmp_path, "own", CREATORS, "cpp")
    nothing = compiled(tmp_path, "nothing", EMPTY)
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(library), str(nothing), str(library)],
        cwd=tmp_path,
        env=child_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [row for row in done.stdout.splitlines() if not row.startswith("[ERROR]")]
    assert lines[0] == "['OwnScale', 'mine::OwnNorm 2']"
    assert "getCreators could not be loaded" in lines[1]
    assert "OwnScale exists already" in lines[2]
    assert lines[3:] == ["OwnNorm", "True"]
