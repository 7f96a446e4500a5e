"""Which stages a target goes through follows from what the live nodes can do."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.precision import PrecisionTool
from enginefarm.spec import BuildSpec
from enginefarm.state import PLAIN_STAGES, Stage
from enginefarm.target import Target
from tasks.messages import BackendDescription, NodeDescription
from tasks.plan import LiveNode, able, newest_version, plan_target, served_targets
from tasks.routing import NODE_STAGES, queues_served, serves

GPU = Target.parse("tensorrt-rtx@sm_89")
EVERYTHING = NODE_STAGES
COSINE = {"metric": "cosine", "at_least": 0.9}


def live(
    name: str = "a",
    version: str = "1.7",
    *,
    measures: bool = True,
    stages: tuple[Stage, ...] = EVERYTHING,
    backend: str = "tensorrt-rtx",
    arch: str = "sm_89",
) -> LiveNode:
    probed = BackendDescription(
        name=backend, version=version, builds=[arch], measures=[arch] if measures else []
    )
    return LiveNode(
        name,
        NodeDescription(
            hostname=name,
            cpu="EPYC",
            cores=8,
            memory_bytes=1,
            devices=[],
            backends=[probed],
            stages=list(stages),
            reads_refined_targets=True,
            farm_version="0",
        ),
    )


def spec(**fields: object) -> BuildSpec:
    return BuildSpec.model_validate({"model": "sha256:" + "a" * 64, "targets": [str(GPU)]} | fields)


def test_a_target_that_is_measured_goes_through_every_stage() -> None:
    plan = plan_target(spec(), GPU, [live()])
    assert (plan.version, plan.stages, plan.measured, plan.reason) == (
        "1.7",
        PLAIN_STAGES,
        True,
        None,
    )


def test_a_target_that_nobody_can_measure_is_built_and_the_reason_is_given() -> None:
    plan = plan_target(spec(), GPU, [live(measures=False)])
    assert plan.stages == (Stage.REPAIR, Stage.CHECK, Stage.COMPILE, Stage.PUBLISH)
    assert plan.reason == "not run: no live node has a sm_89 device with tensorrt-rtx"


@pytest.mark.parametrize(
    ("asked", "says"),
    [({"strip_plan": True}, "weights"), ({"runtime_platform": "windows-amd64"}, "Windows")],
)
def test_what_no_node_can_ever_run_is_built_and_not_measured(
    asked: dict[str, object], says: str
) -> None:
    target = Target.parse("tensorrt@sm_89")
    both = [live(backend="tensorrt", version="11.4.0.106"), live("b")]
    built = spec(targets=[str(target), str(GPU)], options={"compile": asked})
    plan = plan_target(built, target, both)
    assert Stage.BENCHMARK not in plan.stages
    assert says in (plan.reason or "")
    assert not plan.measured
    # The other target's backend has no such option: its engine is like any other.
    assert plan_target(built, GPU, both).measured
    waits = spec(
        targets=[str(target)], options={"compile": asked}, gates=[COSINE], wait_for_node=60
    )
    with pytest.raises(InvalidRequest, match="cannot be judged") as refused:
        plan_target(waits, target, both)
    assert says in refused.value.why


@pytest.mark.parametrize("nodes", [[live()], [live(measures=False)], []])
def test_a_build_until_check_is_planned_no_further(nodes: list[LiveNode]) -> None:
    gated = spec(until="check", gates=[COSINE], wait_for_node=60)
    plan = plan_target(gated, GPU, nodes)
    assert plan.stages == PLAIN_STAGES[: PLAIN_STAGES.index(Stage.CHECK) + 1]
    assert not plan.measured


def test_a_build_cannot_stop_at_just_any_stage() -> None:
    with pytest.raises(ValueError, match="only after check"):
        spec(until="compile")


@pytest.mark.parametrize(
    ("nodes", "missing"),
    [
        ([], "no live node has the backend tensorrt-rtx"),
        ([live(backend="onnxruntime")], "no live node has the backend tensorrt-rtx"),
        ([live(arch="sm_86")], "no live node's tensorrt-rtx builds for sm_89"),
    ],
)
def test_the_capability_that_is_missing_is_named(nodes: list[LiveNode], missing: str) -> None:
    with pytest.raises(NotServed) as refused:
        plan_target(spec(), GPU, nodes)
    assert refused.value.context == {"target": str(GPU), "missing": missing}
    assert "wait_for_node" in refused.value.fix


def test_who_waits_for_a_node_is_planned_without_a_version() -> None:
    plan = plan_target(spec(wait_for_node=60), GPU, [])
    assert (plan.version, plan.stages) == (None, PLAIN_STAGES)


def test_a_node_that_only_measures_builds_nothing() -> None:
    with pytest.raises(NotServed):
        plan_target(spec(), GPU, [live(stages=(Stage.BENCHMARK,))])


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (["1.9", "1.10"], "1.10"),
        (["1.7.1.116", "1.7.1.99"], "1.7.1.116"),
        (["1.7", "1.7.1"], "1.7.1"),
        (["1.7.0-rc1", "1.7.0.1"], "1.7.0.1"),
    ],
)
def test_versions_are_ordered_as_numbers(versions: list[str], newest: str) -> None:
    for order in (versions, versions[::-1]):
        nodes = [live(str(i), version) for i, version in enumerate(order)]
        assert newest_version(nodes, GPU) == newest


def test_a_node_with_another_version_is_not_able() -> None:
    nodes = [live("a", "1.7"), live("b", "1.8"), live("c", "1.8", measures=False)]
    assert able(nodes, Stage.COMPILE, GPU, "1.8") == ["b", "c"]
    assert able(nodes, Stage.BENCHMARK, GPU, "1.8") == ["b"]
    # The newest builder decides; measuring with the older version would measure another engine.
    assert not plan_target(spec(), GPU, [nodes[0], nodes[2]]).measured


def test_a_gate_that_nobody_can_judge_is_refused_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        plan_target(spec(gates=[COSINE]), GPU, [live(measures=False)])
    assert refused.value.code == "gate_unmeasurable"
    told = {"target": str(GPU), "metric": "cosine", "instead": "Leave the gate out"}
    assert refused.value.context == told


@pytest.mark.parametrize(
    "gate",
    [{"metric": "engine_bytes", "at_most": 1}, COSINE | {"target": "onnxruntime@cpu"}],
    ids=["known from the build", "of another target"],
)
def test_a_gate_that_needs_no_measurement_here_is_no_obstacle(gate: dict[str, object]) -> None:
    assert not plan_target(spec(gates=[gate]), GPU, [live(measures=False)]).measured


def test_a_gate_may_wait_for_a_node_that_measures_if_the_build_may_wait_at_all() -> None:
    waits = COSINE | {"if_unmeasured": "wait"}
    nodes = [live(measures=False)]
    assert plan_target(spec(gates=[waits], wait_for_node=60), GPU, nodes).stages == PLAIN_STAGES
    with pytest.raises(InvalidRequest):
        plan_target(spec(gates=[waits]), GPU, nodes)


@pytest.mark.parametrize("wait", [0, 3600])
def test_nobody_waits_for_a_backend_that_this_version_has_no_code_for(wait: int) -> None:
    target = Target.parse("tensorrt-llm@sm_90")
    asked = spec(targets=[str(target)], wait_for_node=wait)

    with pytest.raises(NotServed) as refused:
        plan_target(asked, target, [live()])

    assert refused.value.code == "backend_not_in_version"
    assert "tensorrt-rtx" in refused.value.fix


def test_a_node_of_a_newer_version_may_have_it_all_the_same() -> None:
    target = Target.parse("tensorrt-llm@sm_90")
    newer = live(version="10", backend="tensorrt-llm", arch="sm_90")

    assert plan_target(spec(targets=[str(target)]), target, [newer]).version == "10"


@pytest.mark.parametrize(
    ("version", "knows"), [("10.16.1.11", False), ("11.0.0.114", False), ("11.1.0.106", True)]
)
def test_an_option_that_came_later_is_refused_where_the_version_is_known(
    version: str, *, knows: bool
) -> None:
    target = Target.parse("tensorrt@sm_90")
    nodes = [live(version=version, backend="tensorrt", arch="sm_90")]
    asked = spec(targets=[str(target)], options={"compile": {"build_route": "-knob=on"}})

    if knows:
        assert plan_target(asked, target, nodes).version == version
        return
    with pytest.raises(InvalidRequest) as refused:
        plan_target(asked, target, nodes)
    assert refused.value.code == "option_not_in_version"
    assert f"tensorrt {version} has no options.compile.build_route" in refused.value.message
    assert "11.1" in refused.value.fix


def test_the_targets_that_are_served_are_those_that_live_nodes_check_and_compile() -> None:
    nodes = [
        live(),
        live("b", backend="onnxruntime", arch="cpu"),
        live("c", arch="sm_86", stages=(Stage.BENCHMARK,)),
        live("d", backend="of-tomorrow"),
    ]
    assert list(map(str, served_targets(nodes))) == ["onnxruntime@cpu", "tensorrt-rtx@sm_89"]


INT8 = {"kind": "int8", "calibration": "sha256:" + "1" * 64}


def tool(stages: tuple[Stage, ...] = EVERYTHING, version: str = "1.32.0") -> LiveNode:
    return live("tools", version, backend="onnxruntime", arch="cpu", stages=stages)


def test_a_precision_adds_its_stage_before_the_check_and_names_its_tools_version() -> None:
    plan = plan_target(spec(precision=INT8), GPU, [live(), tool()])
    assert plan.stages[:3] == (Stage.REPAIR, Stage.CALIBRATE, Stage.CHECK)
    assert Stage.CAST not in plan.stages
    assert plan.version_of(Stage.CALIBRATE) == "1.32.0"
    assert plan.version_of(Stage.COMPILE) == "1.7"
    cast = plan_target(spec(precision={"kind": "fp16"}), GPU, [live(), tool()])
    assert cast.stages[:3] == (Stage.REPAIR, Stage.CAST, Stage.CHECK)


def test_a_precision_that_nobody_has_the_tool_for_is_refused_or_waited_for() -> None:
    older = tuple(stage for stage in EVERYTHING if stage is not Stage.CALIBRATE)
    for nodes in ([live()], [live(), tool(older)]):
        with pytest.raises(NotServed) as refused:
            plan_target(spec(precision=INT8), GPU, nodes)
        assert refused.value.code == "precision_not_served"
        waits = plan_target(spec(precision=INT8, wait_for_node=60), GPU, nodes)
        assert (waits.version, Stage.CALIBRATE in waits.stages) == (None, True)
    assert plan_target(spec(), GPU, [live()]).stages == PLAIN_STAGES


def test_the_newest_tool_is_taken() -> None:
    nodes = [live(), tool(version="1.9.0"), tool(version="1.32.0")]
    assert plan_target(spec(precision=INT8), GPU, nodes).tool_version == "1.32.0"


FP8 = {"kind": "fp8", "calibration": "sha256:" + "1" * 64}
MODELOPT = "0.47.0+onnx1.21.0.onnxruntime1.24.4"


def with_modelopt(version: str = MODELOPT, runtime: str = "1.32.0") -> LiveNode:
    """Return a node that has ONNX Runtime, and ModelOpt in an environment of its own."""
    node = tool(version=runtime)
    apart = BackendDescription(name="modelopt", version=version, builds=["cpu"], measures=[])
    backends = [*node.description.backends, apart]
    return LiveNode("apart", node.description.model_copy(update={"backends": backends}))


def test_a_tool_with_an_environment_of_its_own_is_asked_for_by_name_and_version() -> None:
    older = with_modelopt("0.9.0+onnx1.18.0.onnxruntime1.22.0")
    nodes = [live(), tool(), older, with_modelopt()]
    plan = plan_target(spec(precision=FP8), GPU, nodes)
    assert plan.version_of(Stage.CALIBRATE) == MODELOPT
    again = INT8 | {"tool": "modelopt"}
    assert plan_target(spec(precision=again), GPU, nodes).tool_version == MODELOPT
    assert plan_target(spec(precision=INT8), GPU, nodes).tool_version == "1.32.0"


def test_a_tool_that_no_node_has_is_named_in_the_refusal() -> None:
    with pytest.raises(NotServed) as refused:
        plan_target(spec(precision=FP8), GPU, [live(), tool()])
    assert refused.value.code == "precision_not_served"
    assert "modelopt" in refused.value.why


def test_only_a_node_with_the_tool_may_have_its_job() -> None:
    plain, apart = tool().description, with_modelopt().description
    for stage, named in ((Stage.CALIBRATE, PrecisionTool.MODELOPT), (Stage.CAST, None)):
        version = MODELOPT if named else "1.32.0"
        assert serves(apart, stage, GPU, version, named)
        assert serves(plain, stage, GPU, version, named) is (named is None)
    assert not serves(apart, Stage.CALIBRATE, GPU, "0.9.0", PrecisionTool.MODELOPT)
    bare = apart.model_copy(update={"backends": apart.backends[1:]})  # nothing would judge there
    assert not serves(bare, Stage.CALIBRATE, GPU, MODELOPT, PrecisionTool.MODELOPT)
    assert queues_served(bare) == []
