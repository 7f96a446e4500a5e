"""Models that need more than a build of them, by the whole farm: a repair, or code of their own.

A speech model that branches is built for three targets with its rate fixed; a model with an
operator that no runtime has, by the plugin that the farm's node was given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginefarm.cli.exit_codes import ExitCode
from enginefarm.digest import digest_of_file
from localfarm.models import shipped
from tests.contract.backends import custom_operators, made
from tests.e2e.conftest import RunningFarm

pytestmark = pytest.mark.e2e
MODEL = "silero-op15"
TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_86+sm_89")
WORDS = (
    *("--profile", "input=1x576:1x576:8x576,state=2x1x128:2x1x128:2x8x128"),
    *("--option", "benchmark.max_duration_ms=1500", "--option", "benchmark.min_duration_ms=100"),
    *("--option", "benchmark.threads=1"),
)


@pytest.fixture(scope="module")
def built(running_farm: RunningFarm) -> dict[str, Any]:
    return running_farm.built(MODEL, TARGETS, *WORDS, "--fix", "sr=16000")


def jobs(view: dict[str, Any], stage: str) -> dict[str, dict[str, Any]]:
    return {row["target"]: row for row in view["jobs"] if row["stage"] == stage}


def test_every_target_is_published_and_the_two_gpus_share_one_repair(
    built: dict[str, Any],
) -> None:
    assert {row["artifact_state"] for row in built["targets"]} == {"published"}
    repairs = jobs(built, "repair")
    first, second = (repairs[target] for target in TARGETS[1:])
    assert first["key"] == second["key"] != repairs[TARGETS[0]]["key"]
    assert [first["cached_from"], second["cached_from"]].count(None) == 1
    assert (
        first["repairs"]
        == second["repairs"]
        == [
            "fix-inputs",
            "pin-dimensions",
            "fold-constants",
        ]
    )
    models = {
        file["digest"]
        for row in (first, second)
        for file in row["outputs"]
        if file["name"] == "model.onnx"
    }
    assert len(models) == 1


def test_the_report_says_what_was_proven_and_the_original_is_the_measure(
    running_farm: RunningFarm, built: dict[str, Any]
) -> None:
    told = running_farm.report(built, TARGETS[1])
    assert told["repaired_model"] != told["model"]
    passes = {row["name"]: row for row in told["repair"]["passes"]}
    for name in ("fix-inputs", "fold-constants"):
        assert passes[name]["outcome"] == "applied"
        assert passes[name]["proof"]["max_rel_error"] <= 1e-5
    measured = running_farm.report(built, TARGETS[0])
    outputs = measured["accuracy"]["outputs"]
    assert min(row["cosine"] for row in outputs) > 0.99999
    assert sorted(measured["latency"][0]["shapes"]) == ["input", "state"]


def test_one_engine_for_two_architectures_is_published_and_both_are_named_where_it_was_not_run(
    running_farm: RunningFarm, built: dict[str, Any]
) -> None:
    told = running_farm.report(built, TARGETS[2])
    assert told["target"] == TARGETS[2]
    assert told["reason"] == ("not run: no live node has a sm_86 or sm_89 device with tensorrt-rtx")
    compiled = [jobs(built, "compile")[target] for target in TARGETS[1:]]
    assert {row["queue"] for row in compiled} == {"compile.sm_86"}
    assert compiled[0]["key"] != compiled[1]["key"]


def test_the_same_again_is_answered_from_the_cache(
    running_farm: RunningFarm, built: dict[str, Any]
) -> None:
    again = running_farm.built(MODEL, TARGETS, *WORDS, "--fix", "sr=16000")
    assert all(row["cached_from"] for row in again["jobs"])


def test_the_engine_runs_without_the_input_that_was_fixed(
    running_farm: RunningFarm, built: dict[str, Any], tmp_path: Path
) -> None:
    digest = next(row["artifact"] for row in built["targets"] if row["target"] == TARGETS[0])
    folder = tmp_path / "engine"
    pulled = running_farm.cli("pull", digest, str(folder))
    assert pulled.returncode == 0, pulled.stderr
    config = json.loads((folder / "config.json").read_text())
    assert config["fixed_inputs"] == {"sr": {"value": 16000, "shape": None}}
    done = running_farm.cli("run", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)["inputs"]) == ["input", "state"]
    refused = running_farm.cli("run", str(folder), "--synthetic", "sr=8000")
    assert "fixed in this engine" in refused.stderr


def test_people_are_told_what_was_done(running_farm: RunningFarm, built: dict[str, Any]) -> None:
    shown = running_farm.cli("show", built["id"])
    assert "--fix sr=16000" in shown.stdout
    assert "fold-constants" in shown.stdout
    digest = next(row["artifact"] for row in built["targets"] if row["target"] == TARGETS[1])
    told = running_farm.cli("report", digest)
    assert "bit for bit the same" in told.stdout
    targets = [part for target in TARGETS for part in ("-t", target)]
    model = str(shipped(MODEL).file())
    words = ("submit", model, *targets, *WORDS, "--fix", "sr=16000", "--dry-run")
    assert "repairs: fix-inputs" in running_farm.cli(*words).stdout


def test_a_build_that_wants_no_repair_is_refused_by_the_compiler(
    running_farm: RunningFarm,
) -> None:
    model = str(shipped(MODEL).file())
    words = ("submit", model, "-t", TARGETS[1], *WORDS, "--option", "repair.mode=none", "--watch")
    done = running_farm.cli(*words, "--synthetic", "sr=16000")
    assert done.returncode == ExitCode.BUILD_FAILED, done.stdout + done.stderr


def test_a_model_with_an_operator_of_a_plugin_is_built_measured_signed_and_run(
    running_farm: RunningFarm, tmp_path: Path
) -> None:
    assert running_farm.plugins is not None
    library = running_farm.plugins / "onnxruntime" / "custom.so"
    assert "custom.so" in running_farm.cli("plugins").stdout
    model = made.save(tmp_path / "model", custom_operators.inverse())
    submit = ("submit", str(model), "-t", TARGETS[0], *WORDS[2:], "--gate", "cosine>=0.999")
    named = ("--option", f"plugins.onnxruntime={library}")
    done = running_farm.cli(*submit, *named, "--watch", "--json")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    view = json.loads(done.stdout.splitlines()[-1])["data"]
    assert [row["artifact_state"] for row in view["targets"]] == ["published"]
    assert running_farm.report(view, TARGETS[0])["accuracy"]["outputs"][0]["cosine"] > 0.999
    folder = tmp_path / "engine"
    pulled = running_farm.cli("pull", view["targets"][0]["artifact"], str(folder))
    assert digest_of_file(library) in pulled.stdout + pulled.stderr
    ran = running_farm.cli("run", str(folder), "--plugin", str(library), "--json")
    assert ran.returncode == ExitCode.OK, ran.stderr
