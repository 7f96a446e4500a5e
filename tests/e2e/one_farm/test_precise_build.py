"""Models in int8, built by the whole farm: a real one for three targets, and two for a verdict."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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
    *("--option", "benchmark.threads=1"),
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
        # Whether it is faster depends on the machine, and is no matter here.
        *("--option", "precision.on_slower=publish", "--option", "precision.min_cosine=0.9"),
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


@pytest.mark.soak
def test_a_search_chooses_among_builds_and_says_what_it_found(
    running_farm: RunningFarm, data: dict[str, str], tmp_path: Path, built: dict[str, Any]
) -> None:
    space = ("--option", "precision.kinds=int8", "--option", "precision.methods=percentile")
    done = running_farm.cli(
        *("submit", str(shipped(MODEL).file()), "-t", TARGETS[0], *WORDS),
        *("--precision", "auto", "--require", "cosine>=0.9", "--budget", "3", *space),
        *("--try-profile", "one:bytes=1x2048"),
        *("--calibration", data["calibration"], "--evaluation", data["held-out"]),
    )
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "is the best by P99 of those that meet cosine >= 0.9" in done.stdout
    chosen = re.search(r"chosen: (sha256:[0-9a-f]{64})", done.stdout)
    assert chosen is not None
    search = done.stdout.split()[0]
    view = json.loads(running_farm.cli("search", "show", search, "--json").stdout)
    named = [(row["precision"]["kind"], row["profile"]) for row in view["candidates"]]
    assert named[:2] == [("as-is", None), ("int8", None)]
    assert named[2][1] == "one"
    int8, other = view["candidates"][1:]
    assert view["artifact"] == chosen[1]
    assert int8["outcome"]["layers"]
    report = json.loads(running_farm.cli("report", int8["outcome"]["artifact"], "--json").stdout)
    assert report["precision"]["sensitivity"]["layers"][0]["cosine_loss"] is not None
    # What the search shares with the build before it was not compiled again.
    jobs = json.loads(running_farm.cli("show", int8["build"], "--json").stdout)["jobs"]
    assert next(row for row in jobs if row["stage"] == "compile")["cached_from"]
    # Nor was the model prepared again for another profile, and all were measured at one place.
    jobs = json.loads(running_farm.cli("show", other["build"], "--json").stdout)["jobs"]
    made = {row["stage"]: row["cached_from"] for row in jobs if row["twin"] is None}
    assert made["repair"]
    assert made.get("calibrate", "as it came")
    assert not made["benchmark"]
    digests = [row["outcome"]["artifact"] for row in view["candidates"]]
    told = [json.loads(running_farm.cli("report", each, "--json").stdout) for each in digests]
    assert {str(row["latency"][0]["shapes"]) for row in told} == {"{'bytes': [1, 2048]}"}
    assert running_farm.cli("pull", chosen[1], str(tmp_path / "chosen")).returncode == ExitCode.OK
    others = [each for each in digests if each != chosen[1]]
    kept = running_farm.cli("pull", others[0], str(tmp_path / "other"))
    assert "a candidate that its search has not chosen" in kept.stdout + kept.stderr


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
    words = ("--precision", "fp8", "--option", "precision.min_cosine=0.9", *samples)
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


def chain(folder: Path, width: int, layers: int, rows: int) -> Path:
    """Write a model of so many products of matrices, one after the other, with its data."""
    rng, values, nodes = np.random.default_rng(0), [], []
    for layer in range(layers):
        drawn = (rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        values.append(numpy_helper.from_array(drawn, f"w{layer}"))
        before, after = f"x{layer}", f"x{layer + 1}"
        nodes.append(helper.make_node("MatMul", [before, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [after]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width])
        for name in ("x0", f"x{layers}")
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], values)
    opset = helper.make_opsetid("", 17)
    path = folder / f"chain-{width}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    places = np.linspace(0, 20, width, dtype=np.float32)
    for name, first, count in (("calibration", 100, 12), ("held-out", 0, 6)):
        waves = [
            np.sin(np.outer(1 + 0.1 * ((np.arange(rows) + n * rows) % 17), places) + n)
            for n in range(first, first + count)
        ]
        with (folder / f"{width}-{name}.npz").open("wb") as stream:
            np.savez(stream, allow_pickle=False, x0=np.stack(waves).astype(np.float32))
    return path


def judged(
    farm: RunningFarm, folder: Path, width: int, layers: int, rows: int
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    path = chain(folder, width, layers, rows)
    data = [str(folder / f"{width}-{name}.npz") for name in ("calibration", "held-out")]
    done = farm.cli(
        *("submit", str(path), "-t", TARGETS[0], "--precision", "int8", *WORDS[2:]),
        *("--calibration", data[0], "--evaluation", data[1], "--watch", "--json"),
        *("--option", "precision.min_cosine=0.98"),
    )
    view: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["data"]
    return view, done


def test_where_int8_makes_a_model_slower_it_is_labelled_and_not_released(
    running_farm: RunningFarm, tmp_path: Path
) -> None:
    # Products so small that it takes longer to convert what goes in than to multiply.
    view, done = judged(running_farm, tmp_path, width=16, layers=24, rows=1)
    assert done.returncode == ExitCode.BUILD_FAILED
    (target,) = view["targets"]
    assert (target["verdict"], target["artifact_state"]) == ("slower", "quarantined")
    assert target["failure"]["code"] == "precision_slower"
    told = running_farm.report(view, TARGETS[0])["precision_verdict"]
    assert told["speed"][0]["speedup"] < 1
    shown = running_farm.cli("show", view["id"]).stdout
    assert "slower" in shown
    assert "twin compile" in shown


@pytest.mark.soak
@pytest.mark.skipif(
    not {"avx512_vnni", "avx_vnni", "amx_int8"} & set(Path("/proc/cpuinfo").read_text().split()),
    reason="this processor has no instructions for int8, and is not surely faster with it",
)
def test_where_int8_makes_a_model_faster_it_is_accepted_with_the_numbers(
    running_farm: RunningFarm, tmp_path: Path
) -> None:
    view, done = judged(running_farm, tmp_path, width=768, layers=4, rows=64)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    (target,) = view["targets"]
    assert (target["verdict"], target["artifact_state"]) == ("accept", "published")
    told = running_farm.report(view, TARGETS[0])["precision_verdict"]
    assert told["speed"][0]["low"] > 1
    assert told["twin"]["engine"].startswith("sha256:")
    assert told["floor"]["value"] >= 0.98
