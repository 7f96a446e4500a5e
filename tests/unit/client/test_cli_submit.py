"""``submit`` asks for exactly what was written, and tells what is misspelt before it sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.state import BuildState
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import (
    MODEL,
    build,
    published,
)

Call = dict[str, Any]


def _submitting(farm: LoopbackFarm) -> list[Call]:
    """Let the farm take builds; return the bodies that come."""
    bodies: list[Call] = []

    def answer(handler: Handler) -> None:
        bodies.append(json.loads(handler.body()))
        view = build(BuildState.PENDING, [], [published()])
        handler.reply(201, view.model_dump_json().encode())

    farm.routes["/v1/builds"] = answer
    return bodies


def test_the_everyday_line_asks_for_exactly_what_was_written(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = _submitting(farm_env)
    line = [
        *("submit", MODEL, "-t", "tensorrt-rtx@sm_89", "-t", "onnxruntime@cpu"),
        *("--profile", "x=1x3x160x160:1x3x320x480:4x3x960x960,m=1:1:4", "--profile", "sr=1"),
        *("--profile", "x=8x3x32x32"),
        *("--gate", "cosine>=0.999", "--gate", "onnxruntime@cpu:latency_p99_ms <= 5"),
        *("--gate", "snr_db[logits]>=30", "--if-unmeasured", "wait"),
        *("--label", "team=vision", "--option", "compile.optimization_level=3"),
        *("--option", "compile.graph_optimization=basic", "--synthetic", "ids=0:30521"),
        *("--synthetic", "sr=16000", "--priority", "0", "--wait-for-node", "10m", "--seed", "7"),
        *("--idempotency-key", "mine"),
    ]

    assert invoke(line) == ExitCode.OK

    assert capsys.readouterr().out == "bld_1\n"
    body = bodies[0]
    assert body["targets"] == ["tensorrt-rtx@sm_89", "onnxruntime@cpu"]
    assert [sorted(profile) for profile in body["profiles"]] == [["m", "sr", "x"], ["x"]]
    assert body["profiles"][0]["x"]["opt"] == [1, 3, 320, 480]
    assert list(body["profiles"][1]["x"].values()) == [[8, 3, 32, 32]] * 3
    assert [(g["metric"], g["at_least"], g["at_most"]) for g in body["gates"]] == [
        ("cosine", 0.999, None),
        ("latency_p99_ms", None, 5.0),
        ("snr_db", 30.0, None),
    ]
    assert body["gates"][1]["target"] == "onnxruntime@cpu"
    assert body["gates"][2]["output"] == "logits"
    assert {gate["if_unmeasured"] for gate in body["gates"]} == {"wait"}
    assert body["labels"] == {"team": "vision"}
    assert body["options"]["compile"]["optimization_level"] == 3
    assert body["options"]["compile"]["graph_optimization"] == "basic"
    assert body["synthetic"]["ids"] == {"value": None, "low": 0.0, "high": 30521.0}
    assert body["synthetic"]["sr"]["value"] == 16000
    assert (body["priority"], body["wait_for_node"], body["seed"]) == (0, 600, 7)
    assert farm_env.seen[-1].headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["-t", "tensorrt"], "onnxruntime@cpu"),
        (["--profile", "x"], "1x3x160x160"),
        (["--profile", "x=axb"], "MIN:OPT:MAX"),
        (["--gate", "cosine=0.9"], "cosine>=0.999"),
        (["--gate", "cosine>=much"], "cosine>=0.999"),
        (["--label", "vision"], "team=vision"),
        (["--label", "a=1", "--label", "a=2"], "twice"),
        (["--synthetic", "x=low:high"], "ids=0:30521"),
        (["--wait-for-node", "5x"], "10m"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(
    extra: list[str],
    sentence: str,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke(["submit", "nothing.onnx", "-t", "onnxruntime@cpu", *extra]) == ExitCode.USAGE

    assert sentence in capsys.readouterr().err
    assert farm_env.seen == []


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["-t", "tensort@sm_89"], "'tensorrt'"),
        (["--gate", "cosin>=0.9"], "Did you mean 'cosine'?"),
        (["--gate", "latency_99>=0.9"], "Did you mean 'latency_p99_ms'?"),
        (["--option", "compile.optimisation_level=3"], "'optimization_level'"),
        (["--option", "compil.optimization_level=3"], "'compile'"),
        (["--option", "compile.optimization_level=9"], "optimization_level"),
        (["--synthetic", "x=5:1"], "low <= high"),
    ],
)
def test_what_is_misspelt_is_told_before_anything_is_sent(
    extra: list[str],
    sentence: str,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = invoke(["submit", "nothing.onnx", "-t", "onnxruntime@cpu", *extra])

    out, err = capsys.readouterr()
    assert code == ExitCode.BAD_INPUT
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""
    assert farm_env.seen == []
