"""``submit`` asks for exactly what was written, and tells what is misspelt before it sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.client import read_local_model
from enginefarm.state import BuildState
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import (
    MODEL,
    build,
    model_view,
    one_node_model,
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
        (["--gate", "cosine<=0.9"], "fix: Write cosine>=0.9."),
        (["--gate", "latency_p99_ms>=5"], "fix: Write latency_p99_ms<=5."),
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
    assert code in {
        ExitCode.USAGE,
        ExitCode.BAD_INPUT,
    }
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""
    assert farm_env.seen == []


@pytest.mark.parametrize("text", [b"not a zip", None])
def test_an_evaluation_file_that_is_none_is_told_before_the_model_is_sent(
    text: bytes | None,
    farm_env: LoopbackFarm,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"any")
    dataset = tmp_path / "inputs.npz"
    if text is not None:
        dataset.write_bytes(text)
    line = ["submit", str(tmp_path / "model.onnx"), "-t", "onnxruntime@cpu"]

    assert invoke([*line, "--evaluation", str(dataset)]) in {
        ExitCode.USAGE,
        ExitCode.BAD_INPUT,
    }

    assert "inputs.npz" in capsys.readouterr().err
    assert farm_env.seen == []


@pytest.mark.parametrize("written", [MODEL.removeprefix("sha256:"), MODEL])
def test_a_digest_may_be_written_without_its_kind(written: str, farm_env: LoopbackFarm) -> None:
    bodies = _submitting(farm_env)

    assert invoke(["submit", written, "-t", "onnxruntime@cpu"]) == ExitCode.OK
    assert bodies[0]["model"] == MODEL


def test_a_file_that_is_named_like_a_digest_is_a_file(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("f" * 64).write_bytes(b"no model")

    assert invoke(["submit", "f" * 64, "-t", "onnxruntime@cpu"]) in {
        ExitCode.USAGE,
        ExitCode.BAD_INPUT,
    }
    assert "[not_a_model]" in capsys.readouterr().err


def test_the_digest_of_a_models_file_is_told_from_that_of_the_model(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    farm_env.routes["/v1/builds"] = lambda handler: handler.problem(
        404, "not-found", "unknown_model", fix="Upload it with POST /v1/models."
    )

    assert invoke(["submit", MODEL, "-t", "onnxruntime@cpu"]) == ExitCode.NOT_FOUND
    assert "not the sha256 of its file" in capsys.readouterr().err


def test_a_name_that_is_not_used_is_told(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _submitting(farm_env)
    Path("m.onnx").write_bytes(one_node_model())
    model = read_local_model(Path("m.onnx"))
    farm_env.routes[f"/v1/models/{model.digest}"] = lambda handler: handler.reply(
        200, model_view(model.digest, "first").model_dump_json().encode()
    )

    for line in (["submit", "m.onnx", "-t", "onnxruntime@cpu"], ["models", "--upload", "m.onnx"]):
        assert invoke([*line, "--name", "second"]) == ExitCode.OK
        assert "--name is not used" in (err := capsys.readouterr().err)
        assert "as first" in err
    assert invoke(["submit", MODEL, "-t", "onnxruntime@cpu", "--name", "x"]) == ExitCode.OK
    assert "--name is not used" in capsys.readouterr().err


def test_ctrl_c_tells_whether_a_build_may_have_been_asked_for(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    line = ["submit", MODEL, "-t", "onnxruntime@cpu"]
    with monkeypatch.context() as patched:
        patched.setattr("enginefarm.cli.submit._model", interrupt)
        assert invoke(line) == ExitCode.INTERRUPTED
    assert "nothing was asked for" in capsys.readouterr().err
    monkeypatch.setattr("enginefarm.client.Builds.submit", interrupt)
    assert invoke(line) == ExitCode.INTERRUPTED
    assert "enginefarm list" in capsys.readouterr().err


def test_repairs_are_asked_for_in_the_words_of_the_spec(farm_env: LoopbackFarm) -> None:
    bodies = _submitting(farm_env)
    line = [
        *("submit", MODEL, "-t", "tensorrt-rtx@sm_86", "--fix", "sr=16000", "--fix", "x=1x576"),
        *("--fix", "ids=[128]", "--fix", "train=false", "--fix", "scale=0.5"),
        *("--allow", "restore-float", "--option", "repair.prune_unused=true"),
        *("--option", "repair.keep_outputs=logits,boxes"),
        *("--option", "benchmark.batches=1,4", "--option", "benchmark.cuda_graph=true"),
        *("--option", "benchmark.streams=1,2,4"),
    ]

    assert invoke(line) == ExitCode.OK

    asked = bodies[0]["options"]["repair"]
    assert {name: (row["value"], row["shape"]) for name, row in asked["fix_inputs"].items()} == {
        "sr": (16000, None),
        "x": (None, [1, 576]),
        "ids": (None, [128]),
        "train": (False, None),
        "scale": (0.5, None),
    }
    assert (asked["allow"], asked["prune_unused"]) == (["restore-float"], True)
    assert asked["keep_outputs"] == ["logits", "boxes"]
    measured = bodies[0]["options"]["benchmark"]
    assert (measured["batches"], measured["cuda_graph"]) == ([1, 4], True)
    assert measured["streams"] == [1, 2, 4]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--fix", "sr=many"], "sr=16000"),
        (["--fix", "sr"], "sr=16000"),
        (["--fix", "sr=1", "--fix", "sr=2"], "twice"),
        (["--allow", "restore-flaot"], "restore-float"),
        (["--option", "repair.mode=none", "--fix", "sr=1"], "a repair is asked for"),
    ],
)
def test_a_repair_that_cannot_be_read_is_refused_before_anything_is_sent(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str], line: list[str], said: str
) -> None:
    bodies = _submitting(farm_env)
    assert invoke(["submit", MODEL, "-t", "tensorrt-rtx@sm_86", *line]) in {
        ExitCode.USAGE,
        ExitCode.BAD_INPUT,
    }
    assert said in capsys.readouterr().err
    assert bodies == []
