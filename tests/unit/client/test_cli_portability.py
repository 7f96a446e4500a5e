"""SKUs on the command line: what is asked for, and the table of what was measured on each."""

from __future__ import annotations

import json

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.runtime_cache import MadeFor, RuntimeCacheReport
from enginefarm.state import BuildState, JobState, Stage
from tasks.portability import together
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import ARTIFACT, MODEL, artifact, build, job, published
from tests.unit.enginefarm.reports import latency, machine, report

GONE = "not measured on l4: no node took it within the pending limit"


def test_the_skus_that_are_named_are_asked_for(farm_env: LoopbackFarm) -> None:
    bodies: list[bytes] = []

    def answer(handler: Handler) -> None:
        bodies.append(handler.body())
        handler.reply(201, build(BuildState.PENDING, [], [published()]).model_dump_json().encode())

    farm_env.routes["/v1/builds"] = answer
    line = ["submit", MODEL, "-t", "onnxruntime@sm_89", "--measure-on", "l4"]
    assert invoke([*line, "--measure-on", "geforce-rtx-4090"]) == ExitCode.OK
    assert invoke([*line[:-2], "--measure-on", "every"]) == ExitCode.OK
    asked = [json.loads(body)["measure_on"] for body in bodies]
    assert asked == [["l4", "geforce-rtx-4090"], ["every"]]
    assert invoke([*line, "--measure-on", "l4"]) == ExitCode.BAD_INPUT
    assert len(bodies) == 2


def test_each_sku_has_a_row_with_its_ratio_and_what_is_absent_has_its_reason(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = report(measured=False, reason=GONE, latency=[], accuracy=None, measure_machine=None)
    cache = RuntimeCacheReport(
        made_for=MadeFor(version="1", gpu="NVIDIA L40S", driver="580.1"),
        size=5,
        first_start_ms=900,
        with_cache_ms=60,
    )
    rows = {
        "l4": gone,
        "l40s": report(
            measure_machine=machine(device="NVIDIA L40S", driver="580.1"),
            latency=[latency(2.0)],
            runtime_cache=cache,
        ),
    }
    shown = artifact().model_copy(update={"report": together(rows, [], None)})
    body = shown.model_dump_json().encode()
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda it: it.reply(200, body)
    assert invoke(["report", ARTIFACT]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "ratios are to l40s" in said
    assert GONE in said
    assert "580.1" in said
    assert "first start on NVIDIA L40S: 900 ms, 60 ms with the cache" in said


def test_a_job_names_the_sku_that_it_measures_on(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        job(Stage.BENCHMARK, JobState.RUNNING).model_copy(update={"sku": sku})
        for sku in ("l4", "l40s")
    ]
    body = build(BuildState.RUNNING, rows, [published()]).model_dump_json().encode()
    farm_env.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(200, body)
    made = artifact().model_dump_json().encode()
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda it: it.reply(200, made)
    assert invoke(["show", "bld_1"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert "benchmark l4 " in said
    assert "benchmark l40s" in said
