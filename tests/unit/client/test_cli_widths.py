"""At any width of a terminal every number, target and state is shown whole."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from enginefarm.cli.display import _Bars
from enginefarm.cli.grid import Grid
from enginefarm.cli.results import result_table
from enginefarm.cli.tables import (
    builds_table,
    jobs_table,
    models_table,
    nodes_table,
    plan_table,
    targets_table,
    trust_table,
    when,
)
from enginefarm.client import FarmClient
from enginefarm.plan_views import PlannedJob, PlannedTarget, PlanView
from enginefarm.state import PLAIN_STAGES, BuildState, JobState, NodeState, Stage
from enginefarm.trust_views import TrustKey
from enginefarm.views import (
    BackendView,
    BuildPage,
    BuildSummary,
    FileView,
    ModelSummary,
    ModelView,
    NodeView,
    TargetAvailability,
    TensorView,
)
from tests.unit.client.support.server import LoopbackFarm
from tests.unit.client.support.views import (
    ARTIFACT,
    AT,
    CPU,
    GPU,
    MODEL,
    artifact,
    build,
    failed,
    job,
    published,
)

BUILD = build(
    BuildState.PARTIAL,
    [
        job(
            stage,
            state,
            target,
            id=f"job_01KB9Z{number:020}",
            node="build-node-eu-west-1-a100-07",
            note="as in bld_01KB9Z00000000000000000000, which another tenant asked for",
        )
        for number, (stage, state, target) in enumerate(
            [
                (Stage.CHECK, JobState.SUCCEEDED, CPU),
                (Stage.BENCHMARK, JobState.EXPIRED, GPU),
                (Stage.COMPILE, JobState.CANCELLED, GPU),
            ]
        )
    ],
    [published(), failed()],
).model_copy(update={"id": "bld_01KB9Z00000000000000000000"})
SUMMARY = BuildSummary.model_validate(BUILD.model_dump())
MODEL_ROW = ModelView(
    digest=MODEL,
    name="ch_PP-OCRv4_det_infer",
    size=4_745_517,
    files=[FileView(name="model.onnx", digest=MODEL, size=1)],
    inputs=[TensorView(name="x", dtype="float32", shape=["p2o.DynamicDimension.0", 3, 1024, None])],
    outputs=[],
    opsets={"": 17},
    node_count=12_345,
    created_at=AT,
)
NODE = NodeView(
    id="node_1",
    name="build-node-eu-west-1-a100-07",
    state=NodeState.OUT_OF_SERVICE,
    hostname="h",
    cpu="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    cores=208,
    memory_bytes=1_999_000_000_000,
    devices=[],
    backends=[BackendView(name="tensorrt-rtx", version="1.2.0.54", builds=[], measures=[])],
    queues=[],
    running=["job_01KB9Z00000000000000000000"],
    last_seen_at=AT,
    enrolled_at=AT,
)
KEY = TrustKey(
    keyid="2db31478d707d7b9b1bfc9d3676969cc8fd96787c26b369e626545544abc7543",
    public_key="",
    builders=["https://farm.example/builders/node/v1"],
    not_before=AT,
)
PLAN = PlanView(
    model=MODEL,
    targets=[
        PlannedTarget(
            target=GPU,
            backend_version="1.2.0.54",
            measured=False,
            reason="not run: no live node has a sm_89 device with tensorrt-rtx",
            jobs=[
                PlannedJob(stage=Stage.COMPILE, key=None, queue="compile.sm_89", outcome="build")
            ],
        )
    ],
)
TARGET = TargetAvailability(
    target=GPU,
    compiles=["build-node-eu-west-1-a100-07", "build-node-eu-west-1-a100-08"],
    measures=[],
    versions=["1.2.0.54", "1.3.0.35"],
)
TOOK = "3.0 s"
SHOWN: dict[str, tuple[Callable[[], Grid], list[str]]] = {
    "list": (
        lambda: builds_table(BuildPage(items=[SUMMARY], next_cursor=None)),
        [BUILD.id, "partial", f"{CPU} succeeded", f"{GPU} failed", when(AT)],
    ),
    "show": (
        lambda: jobs_table(BUILD),
        [str(CPU), str(GPU), "succeeded", "expired", "cancelled", when(AT), TOOK]
        + [each.id for each in BUILD.jobs],
    ),
    "models": (
        lambda: models_table([MODEL_ROW]),
        [MODEL_ROW.name, "4.7 MB", "12345", "17", "1024", "p2o.DynamicDimension.0"],
    ),
    "nodes": (
        lambda: nodes_table([NODE]),
        [NODE.name, "out_of_service", "208", "2.0 TB", "1.2.0.54", *NODE.running, when(AT)],
    ),
    "targets": (lambda: targets_table([TARGET]), [str(GPU), *TARGET.versions, *TARGET.compiles]),
    "plan": (lambda: plan_table(PLAN), [str(GPU), "1.2.0.54", "compile.sm_89", "not measured"]),
    "trust": (lambda: trust_table([KEY]), [KEY.keyid, "valid", *KEY.builders, when(AT)]),
}
WIDTHS = [80, 100, 140, 200]


def _lines(grid: Grid, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, force_terminal=True).print(grid)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


def _cut(lines: list[str], wanted: list[str], width: int) -> list[str]:
    """Return what is wanted and not whole in any line, and the lines that are too long."""
    whole = {each: rf"(?<![^\s\[]){re.escape(each)}(?=[\s,.…\]]|$)" for each in wanted}
    gone = [each for each in wanted if not any(re.search(whole[each], line) for line in lines)]
    return gone + [line for line in lines if len(line) > width]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", SHOWN)
def test_nothing_one_reads_or_copies_is_cut(command: str, width: int) -> None:
    grid, wanted = SHOWN[command]

    assert _cut(_lines(grid(), width), wanted, width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_result_of_a_build_is_whole(
    width: int, client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.reply(
        200, artifact().model_dump_json().encode()
    )
    wanted = [str(CPU), "published", "2.5 MB", "1.5 s", "0.999987", "1.2e-05", "2.25 ms", "2.75 ms"]

    lines = _lines(result_table(client, BUILD), width)

    assert _cut(lines, [*wanted, str(GPU), "failed", "sha256:aaaaaaaaaaaa"], width) == []
    assert any(line.startswith("┏") for line in lines) == (width >= 120), "a table or blocks"


def test_a_digest_is_whole_where_there_is_room() -> None:
    assert any(MODEL in line for line in _lines(models_table([MODEL_ROW]), 200))
    assert not any(MODEL in line for line in _lines(models_table([MODEL_ROW]), 100))


def test_a_row_that_tells_only_some_inputs_says_how_many_more_there_are() -> None:
    told = MODEL_ROW.model_dump() | {"file_count": 1, "input_count": 4000, "output_count": 1}
    row = ModelSummary.model_validate(told)

    assert any("3999 more" in line for line in _lines(models_table([row]), 200))


def test_what_a_name_contains_is_neither_markup_nor_an_escape() -> None:
    evil = MODEL_ROW.model_copy(update={"name": "\x1b[2J[red]gone[/red]"})

    for width in (80, 200):
        lines = _lines(models_table([evil]), width)
        assert any("[red]gone[/red]" in line for line in lines)
        assert not any("\x1b" in line for line in lines)


def test_the_bars_of_a_running_build_say_each_state_on_one_line() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, highlight=False)
    jobs = [
        job(stage, JobState.SUCCEEDED, GPU, cached_from="job_0", id=f"job_{stage}")
        for stage in PLAIN_STAGES
    ]
    jobs.append(job(Stage.COMPILE, JobState.FAILED, CPU, failure=failed().failure, id="job_x"))
    board = _Bars(console)

    with board:
        board.show(build(BuildState.RUNNING, jobs, [published(GPU)]))

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).splitlines()[-len(jobs) :]
    assert all(str(job.target) in line for job, line in zip(jobs, shown, strict=True))
    assert all("succeeded (cached)" in line for line in shown[:-1])
    assert "failed: " in shown[-1]
    assert max(map(len, shown)) <= 80
