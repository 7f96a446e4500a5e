"""A build gets the nodes that have the plugins it names, or the reason why there are none."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.plugins import needed, plain_name
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import BackendDescription, Device, NodeDescription, PluginDescription
from tasks.plan import LiveNode, plan_target
from tasks.plugin_rules import check_plugins, having
from tasks.recipe import Made, key_of, recipe_for
from tasks.routing import NODE_STAGES, serves

CPU, TRT = Target.parse("onnxruntime@cpu"), Target.parse("tensorrt@sm_89")
OPS, OTHER, TRT_OPS = (digest_of(name) for name in (b"ops", b"other", b"trt"))
FILES = {"digest": digest_of(b"model"), "files": []}


def live(name: str, *, ort: tuple[str, ...] = (), trt: tuple[str, ...] = ()) -> LiveNode:
    backends = [
        BackendDescription(
            name=backend,
            version="1",
            builds=[arch],
            measures=[arch],
            plugins=[PluginDescription(name=f"lib{each[-4:]}.so", digest=each) for each in digests],
        )
        for backend, arch, digests in (("onnxruntime", "cpu", ort), ("tensorrt", "sm_89", trt))
    ]
    described = NodeDescription(
        hostname=name,
        cpu="EPYC",
        cores=8,
        memory_bytes=1 << 34,
        devices=[Device(arch="sm_89", name="NVIDIA L4")],
        backends=backends,
        stages=list(NODE_STAGES),
        farm_version="0",
    )
    return LiveNode(name, described)


def spec(*targets: Target, plugins: dict[str, list[str]], **fields: Any) -> BuildSpec:  # noqa: ANN401 - any of a body
    options = {"plugins": plugins} | fields.pop("options", {})
    body = {"model": FILES["digest"], "targets": list(map(str, targets)), "options": options}
    return BuildSpec.model_validate(body | fields)


def test_a_stage_needs_those_of_what_it_runs() -> None:
    named = {"onnxruntime": [OPS], "tensorrt": [TRT_OPS]}
    both, reference = named, {"onnxruntime": [OPS]}
    assert {stage: needed(stage, TRT, named) for stage in Stage} == {
        Stage.REPAIR: reference,
        Stage.CAST: reference,
        Stage.CALIBRATE: reference,
        Stage.CHECK: both,
        Stage.COMPILE: {"tensorrt": [TRT_OPS]},
        Stage.BENCHMARK: both,
        Stage.PUBLISH: {},
    }
    for stage in Stage:
        assert needed(stage, TRT, needed(stage, TRT, named)) == needed(stage, TRT, named)


def test_their_order_makes_no_other_key_and_another_library_does() -> None:
    def key(*digests: str, stage: Stage = Stage.COMPILE) -> str:
        asked = spec(CPU, plugins={"onnxruntime": list(digests)} if digests else {})
        return key_of(recipe_for(stage, asked, CPU, "1", FILES, Made()))

    assert key(OPS, OTHER) == key(OTHER, OPS)
    for stage in (Stage.REPAIR, Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        keys = {key(*each, stage=stage) for each in ((), (OPS,), (OTHER,), (OPS, OTHER))}
        assert len(keys) == 4


def test_a_node_without_one_of_them_is_given_no_job() -> None:
    plugins = {"onnxruntime": sorted([OPS, OTHER])}
    whole, half = live("a", ort=(OPS, OTHER)), live("b", ort=(OPS,))
    for stage in (Stage.REPAIR, Stage.CAST, Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        assert serves(whole.description, stage, CPU, "1", plugins=plugins)
        assert not serves(half.description, stage, CPU, "1", plugins=plugins)
        assert serves(half.description, stage, CPU, "1")
        assert having([whole, half], stage, CPU, plugins) == [whole]
    # The same bytes under another backend are not what that backend was asked to load.
    assert not serves(live("c", trt=(OPS,)).description, Stage.COMPILE, CPU, plugins=plugins)


def test_a_build_is_planned_for_the_nodes_that_have_them() -> None:
    asked = spec(CPU, plugins={"onnxruntime": [OPS]})
    plan = plan_target(asked, CPU, [live("a"), live("b", ort=(OPS,))])
    assert plan.version == "1"
    assert plan.measured
    waiting = spec(CPU, plugins={"onnxruntime": [OPS]}, wait_for_node=60)
    assert plan_target(waiting, CPU, [live("a")]).version is None


def test_an_engine_that_only_other_nodes_could_run_is_not_measured_and_says_why() -> None:
    able = live("a", ort=(OPS,))
    blind = able.description.backends[0].model_copy(update={"measures": []})
    there = LiveNode("a", able.description.model_copy(update={"backends": [blind]}))
    plan = plan_target(spec(CPU, plugins={"onnxruntime": [OPS]}), CPU, [there, live("b")])
    assert not plan.measured
    assert plan.reason == "not run: no live node has a cpu device with onnxruntime and the plugins"


def test_a_build_that_nobody_has_the_plugins_for_is_told_which_there_are() -> None:
    asked = spec(CPU, plugins={"onnxruntime": [OPS]})
    with pytest.raises(NotServed) as refused:
        plan_target(asked, CPU, [live("a"), live("b", ort=(OTHER,))])
    assert refused.value.code == "plugin_not_served"
    assert f"No live node has {OPS}" in refused.value.why
    assert f"{OTHER} (onnxruntime)" in refused.value.why
    assert refused.value.context["plugins"] == [OPS]
    with pytest.raises(NotServed) as bare:
        plan_target(asked, CPU, [live("a")])
    assert bare.value.why.endswith("they have no plugin at all.")
    apart = spec(CPU, plugins={"onnxruntime": sorted([OPS, OTHER])})
    with pytest.raises(NotServed) as split:
        plan_target(apart, CPU, [live("a", ort=(OPS,)), live("b", ort=(OTHER,))])
    assert "No one live node that builds the target has all of them" in split.value.why
    with pytest.raises(NotServed) as nobody:
        plan_target(asked, CPU, [])
    assert nobody.value.code == "target_not_served"


@pytest.mark.parametrize(
    ("target", "fields", "code"),
    [
        (CPU, {"plugins": {"tensorrt-rtx": [OPS]}}, "plugin_backend"),
        (CPU, {"plugins": {"anything": [OPS]}}, "plugin_backend"),
        (CPU, {"plugins": {"tensorrt": [OPS]}}, "plugin_unused"),
        (TRT, {"plugins": {"tensorrt": [OPS]}, "precision": {"kind": "fp16"}}, "plugin_precision"),
        (
            CPU,
            {"plugins": {"onnxruntime": [OPS]}, "precision": {"kind": "fp8", "tool": "modelopt"}},
            "plugin_precision",
        ),
        (
            TRT,
            {
                "plugins": {"onnxruntime": [OPS]},
                "options": {"compile": {"version_compatible": True, "serialize_plugins": True}},
            },
            "plugin_serialize",
        ),
    ],
)
def test_plugins_that_nothing_would_load_are_refused(
    target: Target, fields: dict[str, Any], code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_plugins(spec(target, **fields))
    assert refused.value.code == code
    assert refused.value.why
    assert refused.value.fix


def test_that_the_target_loads_no_plugins_at_all_is_said() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_plugins(spec(Target.parse("tensorrt-rtx@sm_89"), plugins={"tensorrt": [OPS]}))
    assert refused.value.code == "plugin_unused"
    assert refused.value.why.endswith("; no plugin is loaded by tensorrt-rtx.")


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (TRT, {"plugins": {"tensorrt": [TRT_OPS]}}),
        (TRT, {"plugins": {"onnxruntime": [OPS]}}),
        (
            TRT,
            {
                "plugins": {"onnxruntime": [OPS], "tensorrt": [TRT_OPS]},
                "precision": {"kind": "fp16"},
            },
        ),
        (CPU, {"plugins": {}, "precision": {"kind": "fp8", "tool": "modelopt"}}),
    ],
)
def test_plugins_that_something_loads_are_taken(target: Target, fields: dict[str, Any]) -> None:
    asked = spec(target, **fields)
    check_plugins(asked)
    loaded = needed(Stage.COMPILE, target, asked.options.plugins)
    assert loaded.get(target.backend) == fields["plugins"].get(target.backend)


@pytest.mark.parametrize(
    "named", [[OPS, OPS], [], ["libops.so"], [OPS] + [digest_of(bytes([n])) for n in range(8)]]
)
def test_a_list_of_plugins_is_of_different_digests_and_short(named: list[str]) -> None:
    with pytest.raises(ValueError, match="plugins"):
        spec(CPU, plugins={"onnxruntime": named})


def test_the_name_of_a_library_can_be_shown_anywhere() -> None:
    assert plain_name("lib ops\n\x1b[31m.so") == "lib_ops___31m.so"
    assert plain_name("") == "_"
    assert len(plain_name("x" * 500)) == 128
