"""A target that names a SKU, a portability or several architectures: who serves it, and its key."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.portable import check_portability, in_options, portability_of
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from enginefarm.target_text import Portability
from tasks.memory import likeness
from tasks.messages import BackendDescription, Device, NodeDescription
from tasks.plan import LiveNode, newest_version, plan_target, queue_now
from tasks.recipe import Made, key_of, recipe_for
from tasks.routing import NODE_STAGES, serves, skus_of

L4 = Target.parse("tensorrt@sm_89:l4")
MODEL = "sha256:" + "a" * 64

RECORDED = {
    ("check", False): "sha256:0d7a5ded12ea991563579397116a3daaca49f4f2813a315d43897d8cf958e909",
    ("check", True): "sha256:e43c6e2987b9428edb0804a38fb5813eac1ae80044d5ac3102cad4553ff5603e",
    ("compile", False): "sha256:d1105e71bb4728e5f5a527b99a7d4b73bea27cdd3b42db6ea23e2a70dc644009",
    ("compile", True): "sha256:9bc29d0da290a63c63effe431ec3b9a770c8f764bf7bb3b33f501ef10ea65b13",
}


def node(
    *gpus: str,
    backend: str = "tensorrt",
    builds: tuple[str, ...] = ("sm_89",),
    measures: tuple[str, ...] = (),
    fault: str | None = None,
    reads: bool = True,
) -> NodeDescription:
    return NodeDescription(
        hostname="h",
        cpu="c",
        cores=1,
        memory_bytes=1,
        devices=[Device(arch="sm_89", name=name, uuid=name, fault=fault) for name in gpus],
        backends=[
            BackendDescription(
                name=backend, version="11.4", builds=list(builds), measures=list(measures)
            )
        ],
        stages=list(NODE_STAGES),
        reads_refined_targets=reads,
        farm_version="0",
    )


def live(**nodes: NodeDescription) -> list[LiveNode]:
    return [LiveNode(name, told) for name, told in nodes.items()]


def spec(target: str, **options: object) -> BuildSpec:
    body = {"model": MODEL, "targets": [target], "options": {"compile": options}}
    return BuildSpec.model_validate(body)


def key(stage: Stage, target: str, **options: object) -> str:
    files = {"digest": MODEL, "files": [{"name": "model.onnx", "digest": MODEL, "size": 7}]}
    made = Made(engine={"digest": MODEL}, compile_key=MODEL)
    asked = spec(target, **options)
    return key_of(recipe_for(stage, asked, asked.targets[0], "11.4", files, made))


@pytest.mark.parametrize("stage", [Stage.CHECK, Stage.COMPILE])
def test_a_sku_is_served_by_a_node_that_has_it_and_that_is_well(stage: Stage) -> None:
    assert serves(node("NVIDIA L4"), stage, L4)
    assert serves(node("NVIDIA GeForce RTX 4090", "NVIDIA L4"), stage, L4)
    assert not serves(node("NVIDIA GeForce RTX 4090"), stage, L4)
    assert not serves(node("NVIDIA L4", fault="Xid 79"), stage, L4)
    assert not serves(node("NVIDIA L4", reads=False), stage, L4)
    assert serves(node("NVIDIA GeForce RTX 4090"), stage, L4.plain)
    assert serves(node("NVIDIA L4", reads=False), stage, L4.plain)


def test_a_sku_can_be_asked_for_that_the_target_does_not_name() -> None:
    measuring = node("NVIDIA L4", measures=("sm_89",))

    assert serves(measuring, Stage.BENCHMARK, L4.plain, sku="l4")
    assert not serves(measuring, Stage.BENCHMARK, L4.plain, sku="geforce-rtx-4090")
    assert skus_of(measuring, "sm_89") == {"l4"}


def test_a_repair_for_a_sku_is_made_on_any_node_of_its_backend() -> None:
    assert serves(node("NVIDIA GeForce RTX 4090"), Stage.REPAIR, L4)


def test_a_sku_that_no_live_node_has_is_refused_with_those_that_there_are() -> None:
    nodes = live(a=node("NVIDIA GeForce RTX 4090"), b=node("NVIDIA L40S"), c=node())
    with pytest.raises(NotServed) as refused:
        plan_target(spec(str(L4)), L4, nodes)

    others = ["tensorrt@sm_89:geforce-rtx-4090", "tensorrt@sm_89:l40s"]
    assert refused.value.context == {
        "target": str(L4),
        "missing": "no live node that builds tensorrt@sm_89 has a GPU l4",
        "other_targets": others,
    }
    assert all(other in refused.value.fix for other in others)
    assert newest_version(live(a=node("NVIDIA L4")), L4) == "11.4"


def test_a_node_of_the_version_before_is_named_where_only_that_is_missing() -> None:
    with pytest.raises(NotServed) as refused:
        plan_target(spec(str(L4)), L4, live(old=node("NVIDIA L4", reads=False)))
    assert refused.value.context["missing"] == (
        "no live node that builds tensorrt@sm_89 is of a version that reads tensorrt@sm_89:l4"
    )


def test_a_precision_for_a_sku_is_made_by_who_reads_such_targets() -> None:
    maker = node(backend="onnxruntime", builds=("cpu",), measures=("cpu",))
    older = maker.model_copy(update={"reads_refined_targets": False})
    body = {"model": MODEL, "targets": [str(L4)], "precision": {"kind": "bf16"}}
    asked = BuildSpec.model_validate(body)
    gpu = node("NVIDIA L4", measures=("sm_89",))

    plan = plan_target(asked, L4, live(gpu=gpu, maker=maker, older=older))
    assert plan.tool_version == "11.4"
    with pytest.raises(NotServed) as refused:
        plan_target(asked, L4, live(gpu=gpu, older=older))
    assert refused.value.code == "precision_not_served"


def test_an_engine_that_is_not_run_names_the_sku_or_each_architecture_that_is_missing() -> None:
    other = node("NVIDIA GeForce RTX 4090", measures=("sm_89",))
    plan = plan_target(spec(str(L4)), L4, live(a=node("NVIDIA L4"), b=other))
    assert plan.reason == "not run: no live node has a sm_89 device l4 with tensorrt"

    both = Target.parse("tensorrt-rtx@sm_86+sm_89")
    builds = node(backend="tensorrt-rtx", builds=("sm_86", "sm_89"))
    plan = plan_target(spec(str(both)), both, live(a=builds))
    assert plan.reason == "not run: no live node has a sm_86 or sm_89 device with tensorrt-rtx"


def test_one_file_for_several_architectures_needs_a_node_that_builds_for_all() -> None:
    both = Target.parse("tensorrt-rtx@sm_86+sm_89")
    apart = [node(backend="tensorrt-rtx", builds=(arch,)) for arch in both.archs]
    with pytest.raises(NotServed) as refused:
        plan_target(spec(str(both)), both, live(a=apart[0], b=apart[1]))
    assert "builds for sm_86 and sm_89" in str(refused.value.context["missing"])


@pytest.mark.parametrize(
    ("measured", "queue"),
    [(["sm_89"], "benchmark.sm_89"), (["sm_89", "sm_86"], "benchmark.sm_86"), ([], None)],
)
def test_it_is_measured_on_the_first_architecture_that_somebody_measures(
    measured: list[str], queue: str | None
) -> None:
    both = Target.parse("tensorrt-rtx@sm_89+sm_86")
    nodes = live(
        builds=node(backend="tensorrt-rtx", builds=("sm_86", "sm_89")),
        **{arch: node(backend="tensorrt-rtx", builds=(), measures=(arch,)) for arch in measured},
    )
    plan = plan_target(spec(str(both)), both, nodes)

    assert plan.measured is (queue is not None)
    assert queue_now(nodes, Stage.COMPILE, both, "11.4") == "compile.sm_86"
    if queue is not None:
        assert queue_now(nodes, Stage.BENCHMARK, both, "11.4") == queue


def test_a_target_of_one_architecture_keeps_the_keys_it_had() -> None:
    """Recorded before a target could name more: what was built then is found again."""
    option = {"hardware_compatibility": "same-compute-capability"}
    assert {
        (str(stage), portable): key(stage, "tensorrt@sm_89", **(option if portable else {}))
        for stage in (Stage.CHECK, Stage.COMPILE)
        for portable in (False, True)
    } == RECORDED


def test_what_a_target_names_is_in_the_key() -> None:
    texts = ("", ":l4", ":l40s", "+ampere_plus", "+same_compute_capability", ":l4+ampere_plus")
    for stage in (Stage.CHECK, Stage.COMPILE, Stage.PUBLISH):
        assert len({key(stage, f"tensorrt@sm_89{text}") for text in texts}) == len(texts)
    sets = ("sm_86", "sm_89", "sm_86+sm_89", "sm_80+sm_86+sm_89")
    assert len({key(Stage.COMPILE, f"tensorrt-rtx@{text}") for text in sets}) == len(sets)
    one, other = "tensorrt-rtx@sm_86+sm_89", "tensorrt-rtx@sm_89+sm_86"
    assert key(Stage.COMPILE, one) == key(Stage.COMPILE, other)


def test_a_portability_is_one_thing_whether_the_target_or_the_option_names_it() -> None:
    option = {"hardware_compatibility": "same-compute-capability"}
    named, bare = "tensorrt@sm_89:l4+same_compute_capability", "tensorrt@sm_89:l4"

    for stage in (Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        assert key(stage, named) == key(stage, bare, **option) == key(stage, named, **option)
        sizes = {likeness(stage, spec(text, **told), Target.parse(text), "11.4")
                 for text, told in ((named, {}), (bare, option))}  # fmt: skip
        assert len(sizes) == 1
    told = {
        portability_of(Target.parse(text), spec(text, **options).options.compile)
        for text, options in ((named, {}), (bare, option), (named, option))
    }
    assert told == {"same_compute_capability"}
    assert portability_of(Target.parse(bare), spec(bare).options.compile) is None


@pytest.mark.parametrize(
    ("target", "option", "said"),
    [
        ("tensorrt@sm_89+ampere_plus", "same-compute-capability", "write tensorrt@sm_89."),
        ("tensorrt@sm_89:l4+ampere_plus", "none", "write tensorrt@sm_89:l4."),
        ("tensorrt@sm_75", "ampere-plus", "sm_80"),
    ],
)
def test_a_target_and_an_option_that_say_different_things_are_refused(
    target: str, option: str, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_portability(spec(target, hardware_compatibility=option))
    assert refused.value.code == "portability_refused"
    assert said in refused.value.fix


def test_a_target_and_an_option_that_say_the_same_are_taken_as_one_thing() -> None:
    twice = spec("tensorrt@sm_89+ampere_plus", hardware_compatibility="ampere-plus")
    once = spec("tensorrt@sm_89+ampere_plus")
    option = spec("tensorrt@sm_75", hardware_compatibility="same-compute-capability")
    for asked in (twice, once, option):
        check_portability(asked)
    (target,) = once.targets
    assert in_options(twice, target) == in_options(once, target)
    compiled = option.options.compile
    assert portability_of(option.targets[0], compiled) is Portability.SAME_COMPUTE_CAPABILITY
