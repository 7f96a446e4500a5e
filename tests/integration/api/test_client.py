"""The published client and the API understand each other, word for word, over a real connection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enginefarm.client import FarmClient
from enginefarm.errors import Forbidden, InvalidProfile, NotFound, NotServed, Unauthenticated
from enginefarm.install import BlobCache, pull
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, Scope
from tests.integration.api.asked import run_to_the_end
from tests.integration.api.made import npz, onnx_model, with_external
from tests.integration.api.node import ENGINE, enrol
from tests.integration.api.served import Served

TARGETS = ["onnxruntime@cpu"]


def spec(model: str, **rest: object) -> BuildSpec:
    return BuildSpec.model_validate({"model": model, "targets": TARGETS, **rest})


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "doubler.onnx"
    path.write_bytes(onnx_model())
    return path


def test_a_person_submits_watches_and_a_deployer_pulls_what_was_signed(
    api: Served, model_file: Path, tmp_path: Path
) -> None:
    node = enrol(api)
    with node.client, FarmClient(api.url, api.key(Scope.SUBMIT)) as farm:
        model = farm.models.upload(model_file)
        plan = farm.builds.plan(spec(model.digest), explain=True)
        build, existed = farm.builds.submit(spec(model.digest, labels={"team": "vision"}))
        run_to_the_end(api, node)
        seen = list(farm.builds.watch(build.id))
        view = farm.builds.get(build.id)
        page = farm.builds.page(
            states=[BuildState.SUCCEEDED], target=TARGETS[0], labels={"team": "vision"}
        )
        log = farm.builds.log(view.jobs[0].id, 1)

    digest = view.targets[0].artifact
    assert digest is not None
    assert existed is False
    assert plan.targets[0].jobs[0].outcome == "build"
    assert [event.kind for event in seen] == ["snapshot"]
    assert [item.id for item in page.items] == [build.id]
    assert log == "all of repair\n"
    with FarmClient(api.url, api.key(Scope.DEPLOY)) as farm:
        keys = farm.trust().keys
        installed = pull(
            farm.artifacts, digest, tmp_path / "engine", keys, cache=BlobCache(tmp_path / "cache")
        )
    assert installed.engine.read_bytes() == ENGINE
    assert installed.artifact.manifest.digest == digest


def test_models_and_datasets_go_both_ways(api: Served, tmp_path: Path, model_file: Path) -> None:
    big = tmp_path / "big.onnx"
    big.write_bytes(with_external("weights.bin"))
    (tmp_path / "weights.bin").write_bytes(b"\0" * 16)
    data = tmp_path / "faces.npz"
    data.write_bytes(npz(x=np.zeros((2, 4), np.float32)))

    with FarmClient(api.url, api.key(Scope.SUBMIT)) as farm:
        model, again = farm.models.upload(model_file), farm.models.upload(model_file)
        external = farm.models.upload(big)
        dataset = farm.datasets.upload(data)
        newest = farm.models.newest(1)

        assert farm.datasets.get(dataset.digest) == dataset
    assert (model.existed, again.existed) == (False, True)
    assert [file.name for file in external.files] == ["model.onnx", "weights.bin"]
    assert [row.digest for row in newest] == [external.digest]


def test_nodes_and_targets_are_told(api: Served) -> None:
    with enrol(api).client, FarmClient(api.url, api.key(Scope.READ)) as farm:
        nodes, targets = farm.fleet.nodes(), farm.fleet.targets()

    assert [node.name for node in nodes] == ["node-1"]
    assert {str(row.target) for row in targets if row.compiles} == set(TARGETS)


def test_problems_come_back_as_the_errors_they_were(api: Served, model_file: Path) -> None:
    with enrol(api).client, FarmClient(api.url, api.key(Scope.SUBMIT)) as farm:
        digest = farm.models.upload(model_file).digest
        misfit = spec(digest, profiles=[{"y": {"min": [1], "opt": [1], "max": [1]}}])
        with pytest.raises(NotFound) as unknown:
            farm.builds.get("bld_none")
        with pytest.raises(NotServed) as unserved:
            farm.builds.submit(spec(digest, targets=["onnxruntime@sm_90"]))
        with pytest.raises(InvalidProfile) as profile:
            farm.builds.submit(misfit)
    with FarmClient(api.url, api.key(Scope.DEPLOY)) as farm, pytest.raises(Forbidden) as scope:
        farm.builds.page()
    with FarmClient(api.url, "ef_no_key") as farm, pytest.raises(Unauthenticated) as key:
        farm.builds.page()

    assert unknown.value.code == "unknown_build"
    assert unserved.value.code == "target_not_served"
    assert unserved.value.context["target"] == "onnxruntime@sm_90"
    assert profile.value.code.startswith("profile_")
    assert scope.value.code == "scope_missing"
    assert key.value.code == "key_unknown"
    assert all(each.value.fix for each in (unknown, unserved, profile, scope, key))
