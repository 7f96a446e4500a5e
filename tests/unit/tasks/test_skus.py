"""Which SKUs an engine is measured on follows from what was asked for and which nodes live."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from enginefarm.errors import InvalidRequest
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import BackendDescription, Device, NodeDescription
from tasks.plan import LiveNode, plan_target
from tasks.routing import NODE_STAGES, serves
from tasks.skus import on_skus, resolved

ADA, HOPPER, CPU = "onnxruntime@sm_89", "onnxruntime@sm_90", "onnxruntime@cpu"


def live(name: str, *gpus: str, arch: str = "sm_89", measures: bool = True) -> LiveNode:
    runs = BackendDescription(
        name="onnxruntime", version="1", builds=[arch], measures=[arch] if measures else []
    )
    described = NodeDescription(
        hostname=name,
        cpu="EPYC",
        cores=8,
        memory_bytes=1 << 34,
        devices=[Device(arch=arch, name=gpu) for gpu in gpus],
        backends=[runs],
        stages=list(NODE_STAGES),
        farm_version="0",
    )
    return LiveNode(name, described)


NODES = [
    live("a", "NVIDIA L4", "NVIDIA L40S"),
    live("b", "NVIDIA GeForce RTX 4090"),
    live("c", "NVIDIA H200", arch="sm_90"),
    live("d", arch="cpu"),
]


def spec(*targets: str, on: object, **fields: object) -> BuildSpec:
    body = {"model": "sha256:" + "a" * 64, "targets": list(targets), "measure_on": on}
    return BuildSpec.model_validate(body | fields)


def planned(asked: BuildSpec, target: str, nodes: list[LiveNode] = NODES) -> tuple[str, ...]:
    plan = plan_target(asked, Target.parse(target), nodes)
    return on_skus(resolved(asked, nodes), plan, nodes).skus


def test_every_sku_of_the_targets_architectures_is_written_down() -> None:
    asked = resolved(spec(ADA, HOPPER, CPU, on="every"), NODES)
    assert asked.measure_on == ["geforce-rtx-4090", "h200", "l4", "l40s"]
    assert planned(asked, ADA) == ("geforce-rtx-4090", "l4", "l40s")
    assert planned(asked, HOPPER) == ("h200",)
    assert planned(asked, CPU) == ()


def test_each_sku_has_a_benchmark_of_its_own_between_compile_and_publish() -> None:
    asked = spec(ADA, on=["l40s", "l4"])
    plan = on_skus(asked, plan_target(asked, Target.parse(ADA), NODES), NODES)
    steps = [(step.stage, step.sku) for step in plan.steps][-4:]
    assert steps == [
        (Stage.COMPILE, None),
        (Stage.BENCHMARK, "l40s"),
        (Stage.BENCHMARK, "l4"),
        (Stage.PUBLISH, None),
    ]


def test_a_node_measures_only_on_a_sku_that_it_has_and_that_is_well() -> None:
    target = Target.parse(ADA)
    a = NODES[0].description
    assert serves(a, Stage.BENCHMARK, target, sku="l40s")
    assert not serves(a, Stage.BENCHMARK, target, sku="geforce-rtx-4090")
    ill = a.devices[1].model_copy(update={"fault": "it is hot"})
    sick = a.model_copy(update={"devices": [a.devices[0], ill]})
    assert not serves(sick, Stage.BENCHMARK, target, sku="l40s")
    assert serves(sick, Stage.BENCHMARK, target, sku="l4")


def refusal(asked: BuildSpec, target: str = ADA, nodes: list[LiveNode] = NODES) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        planned(asked, target, nodes)
    return refused.value


def test_an_unknown_sku_is_refused_with_those_there_are_and_the_nearest() -> None:
    told = refusal(spec(ADA, on=["l40"]))
    assert told.code == "unknown_sku"
    assert told.why == "Of sm_89 there are: geforce-rtx-4090, l4, l40s."
    assert "l40s" in told.fix
    nobody = refusal(spec(HOPPER, on="every"), HOPPER, [live("x", arch="sm_90")])
    assert (nobody.code, nobody.why) == ("unknown_sku", "Of sm_90 there are: none.")


def test_every_leaves_out_what_is_ill_and_what_no_spec_can_name() -> None:
    names = ("NVIDIA L4", "NVIDIA L40S", "NVIDIA", "NVIDIA " + "x" * 65)
    nodes = [live("a", *names)]
    rows = nodes[0].description.devices
    ill = [rows[0], rows[1].model_copy(update={"fault": "Xid 79"}), *rows[2:]]
    sick = LiveNode("a", nodes[0].description.model_copy(update={"devices": ill}))
    asked = resolved(spec(ADA, on="every"), [sick])
    assert asked.measure_on == ["l4"]
    assert BuildSpec.model_validate(asked.model_dump(mode="json")) == asked
    alone = sick.description.model_copy(update={"devices": ill[1:]})
    assert refusal(spec(ADA, on="every"), ADA, [LiveNode("a", alone)]).code == "unknown_sku"


def test_more_skus_than_a_build_is_measured_on_are_refused_with_their_names() -> None:
    nodes = [live("a", *(f"NVIDIA X{number}" for number in range(17)))]
    told = refusal(spec(ADA, on="every"), ADA, nodes)
    assert told.code == "too_many_skus"
    assert "x16" in told.fix
    assert len(planned(spec(ADA, on=["x1", "x16"]), ADA, nodes)) == 2


def test_a_sku_of_another_architecture_is_refused_with_its_own() -> None:
    told = refusal(spec(ADA, on=["l4", "h200"]))
    assert told.code == "sku_of_another_architecture"
    assert "sm_90" in told.message
    assert refusal(spec(CPU, on=["l4"]), CPU).code == "measure_on_cpu"


def test_a_sku_on_which_nobody_measures_is_refused_unless_the_build_would_wait() -> None:
    nodes = [live("a", "NVIDIA L4"), live("b", "NVIDIA L40S", measures=False)]
    assert planned(spec(ADA, on=["l4"]), ADA, nodes) == ("l4",)
    told = refusal(spec(ADA, on=["l4", "l40s"]), ADA, nodes)
    assert told.code == "sku_not_measured"
    assert "l40s" in told.message
    gate = {"metric": "cosine", "at_least": 0.9, "if_unmeasured": "wait"}
    waiting = spec(ADA, on=["l40s"], gates=[gate], wait_for_node=60)
    assert planned(waiting, ADA, nodes) == ("l40s",)
    only_checked = refusal(spec(ADA, on=["l4"], until="check"), ADA, nodes)
    assert only_checked.code == "sku_not_measured"


@pytest.mark.parametrize(
    ("on", "says"),
    [
        (["l4", "l4"], "named twice"),
        (["every", "l4"], "name no other"),
        (["L4"], "write l4"),
        (["all"], "write every"),
    ],
)
def test_a_list_of_skus_that_cannot_be_meant_is_refused(on: list[str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        spec(ADA, on=on)
