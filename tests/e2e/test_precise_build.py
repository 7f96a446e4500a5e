"""A real model in int8, calibrated on real bytes, built for three targets by the whole farm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.searches import searched
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.client import FarmClient
from enginefarm.precision import PrecisionKind
from enginefarm.search import SearchState
from localfarm.models import shipped
from tests.contract.backends.real_inputs import samples
from tests.contract.precision.environment import modelopt_python
from tests.e2e.conftest import RunningFarm

pytestmark = pytest.mark.e2e
MODEL = "magika"
TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89")
WORDS = (
    *("--profile", "bytes=1x2048:1x2048:4x2048"),
    *("--option", "benchmark.max_duration_ms=1500", "--option", "benchmark.min_duration_ms=100"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the files to calibrate and to evaluate with, of different samples."""
    folder = tmp_path_factory.mktemp("data")
    for name, first, count in (("calibration", 100, 12), ("held-out", 0, 6)):
        with (folder / f"{name}.npz").open("wb") as stream:
            np.savez(stream, allow_pickle=False, **samples(MODEL, first, count))
    return {name: str(folder / f"{name}.npz") for name in ("calibration", "held-out")}


@pytest.fixture(scope="module")
def asked(data: dict[str, str]) -> tuple[str, ...]:
    return (
        *("--precision", "int8", "--calibration", data["calibration"]),
        *("--evaluation", data["held-out"], "--gate", "onnxruntime@cpu:cosine>=0.9"),
    )


@pytest.fixture(scope="module")
def built(running_farm: RunningFarm, asked: tuple[str, ...]) -> dict[str, Any]:
    return running_farm.built(MODEL, TARGETS, *WORDS, *asked)


def test_one_calibrated_file_serves_every_target(built: dict[str, Any]) -> None:
    assert {row["artifact_state"] for row in built["targets"]} == {"published"}
    rows = [row for row in built["jobs"] if row["stage"] == "calibrate"]
    assert len(rows) == len(TARGETS)
    assert {row["queue"] for row in rows if row["queue"]} == {"calibrate.cpu"}
    written = {
        file["digest"] for row in rows for file in row["outputs"] if file["name"] == "model.onnx"
    }
    assert len(written) == 1


def test_the_files_accuracy_is_told_where_the_engine_cannot_be_run_and_apart_where_it_can(
    running_farm: RunningFarm, built: dict[str, Any]
) -> None:
    told = {target: running_farm.report(built, target) for target in TARGETS}
    for row in told.values():
        assert row["precision"]["recipe"]["kind"] == "int8"
        assert row["precision"]["changed"] > 0
        accuracy = row["precision"]["model_accuracy"]
        assert not accuracy["synthetic"]
        assert accuracy["outputs"][0]["cosine"] > 0.95
        codes = {finding["code"] for finding in row["precision"]["findings"]}
        assert codes == {"calibration_few_samples"}
    assert told[TARGETS[0]]["accuracy"]["outputs"][0]["cosine"] > 0.9
    assert told[TARGETS[1]]["accuracy"] is None
    assert told[TARGETS[1]]["reason"]


def test_the_same_again_is_answered_from_the_cache(
    running_farm: RunningFarm, built: dict[str, Any], asked: tuple[str, ...]
) -> None:
    assert all(
        row["cached_from"] for row in running_farm.built(MODEL, TARGETS, *WORDS, *asked)["jobs"]
    )


def test_a_search_chooses_among_builds_and_says_what_it_found(
    running_farm: RunningFarm, data: dict[str, str], tmp_path: Path, built: dict[str, Any]
) -> None:
    space = ("--option", "precision.kinds=int8", "--option", "precision.methods=percentile")
    done = running_farm.cli(
        *("submit", str(shipped(MODEL).file()), "-t", TARGETS[0], *WORDS),
        *("--precision", "auto", "--require", "cosine>=0.9", "--budget", "2", *space),
        *("--calibration", data["calibration"], "--evaluation", data["held-out"]),
    )
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "is the best by P99 of those that meet cosine >= 0.9" in done.stdout
    chosen = re.search(r"chosen: (sha256:[0-9a-f]{64})", done.stdout)
    assert chosen is not None
    search = done.stdout.split()[0]
    view = json.loads(running_farm.cli("search", "show", search, "--json").stdout)
    assert [row["precision"]["kind"] for row in view["candidates"]] == ["as-is", "int8"]
    int8 = view["candidates"][1]
    assert view["artifact"] == chosen[1]
    assert int8["outcome"]["layers"]
    report = json.loads(running_farm.cli("report", int8["outcome"]["artifact"], "--json").stdout)
    assert report["precision"]["sensitivity"]["layers"][0]["cosine_loss"] is not None
    # What the search shares with the build before it was not compiled again.
    jobs = json.loads(running_farm.cli("show", int8["build"], "--json").stdout)["jobs"]
    assert next(row for row in jobs if row["stage"] == "compile")["cached_from"]


def test_people_are_told_what_it_cost(running_farm: RunningFarm, built: dict[str, Any]) -> None:
    assert "--precision int8" in running_farm.cli("show", built["id"]).stdout
    digest = next(row["artifact"] for row in built["targets"] if row["target"] == TARGETS[1])
    told = running_farm.cli("report", digest).stdout
    assert "precision int8 by onnxruntime" in told
    assert "output of the model file" in told


def test_data_that_was_calibrated_with_is_refused_as_a_judge_and_noise_is_refused_without_one(
    running_farm: RunningFarm, data: dict[str, str], tmp_path: Path
) -> None:
    model = str(shipped(MODEL).file())
    words = ("submit", model, "-t", TARGETS[0], *WORDS, "--precision", "int8", "--calibration")
    same = running_farm.cli(*words, data["held-out"], "--evaluation", data["held-out"])
    assert "calibration_is_evaluation" in same.stderr or "evaluation" in same.stderr
    assert same.returncode != ExitCode.OK
    noise = np.random.default_rng(0).integers(0, 256, (16, 2048)).astype(np.int32)
    with (tmp_path / "noise.npz").open("wb") as stream:
        np.savez(stream, allow_pickle=False, bytes=noise)
    done = running_farm.cli(*words, str(tmp_path / "noise.npz"), "--watch")
    assert done.returncode == ExitCode.BUILD_FAILED, done.stdout + done.stderr
    assert "noise" in done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("name", ["magika", "rapidocr-rec", "minilm-l3"])
def test_a_search_brings_real_models_near_themselves_or_says_honestly_that_it_cannot(
    running_farm: RunningFarm, tmp_path: Path, name: str
) -> None:
    with FarmClient(running_farm.url, running_farm.key) as farm:
        found = searched(farm, name, TARGETS[0], 12, tmp_path)
    assert found.state in {SearchState.SUCCEEDED, SearchState.UNMET}, found.verdict
    outcomes = {row.number: row.outcome for row in found.candidates if row.outcome is not None}
    assert len(outcomes) == len(found.candidates)
    int8 = [
        outcomes[row.number]
        for row in found.candidates
        if row.precision.kind is PrecisionKind.INT8 and outcomes[row.number].artifact is not None
    ]
    near = [row.cosine for row in int8 if row.cosine is not None]
    assert max(near) >= 0.99 or "No other reaches it" in found.verdict
    assert all(row.met == (row.cosine is not None and row.cosine >= 0.99) for row in int8)


@pytest.mark.soak
def test_a_node_with_modelopt_makes_fp8_for_who_has_it_and_says_so(
    running_farm: RunningFarm, data: dict[str, str]
) -> None:
    modelopt_python()
    assert '"modelopt"' in running_farm.cli("nodes", "--json").stdout
    samples = ("--calibration", data["calibration"], "--evaluation", data["held-out"])
    words = ("--precision", "fp8", *samples)
    built = running_farm.built(MODEL, TARGETS[2:], *WORDS, *words)
    told = running_farm.report(built, TARGETS[2])
    assert told["precision"]["recipe"]["tool"] == "modelopt"
    assert told["precision"]["model_accuracy"]["outputs"][0]["cosine"] > 0.95
    assert (
        told["versions"]["modelopt/nvidia-modelopt"] in told["precision"]["recipe"]["tool_version"]
    )
    digest = next(row["artifact"] for row in built["targets"])
    assert "precision fp8 by modelopt" in running_farm.cli("report", digest).stdout
    model = str(shipped(MODEL).file())
    refused = running_farm.cli("submit", model, "-t", TARGETS[1], *WORDS, *words)
    assert refused.returncode != ExitCode.OK
    assert "sm_86 has no fp8" in refused.stderr
