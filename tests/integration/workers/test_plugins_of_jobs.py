"""Jobs that name plugins: the node's file is copied, hashed and loaded, or the attempt ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginefarm.digest import digest_of_file
from enginefarm.state import Stage
from tests.contract.backends import custom_operators as custom
from tests.contract.backends import made
from tests.integration.workers.attempts import Backends, empty
from tests.integration.workers.served import Served
from workers import executor
from workers.executor import Workshop
from workers.plugins.copying import Shelf
from workers.plugins.folder import Library

Gone = list[tuple[str, str]]


@pytest.fixture
def gone() -> Gone:
    return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an operator's folder with the real library."""
    return custom.laid(tmp_path) / "onnxruntime"


@pytest.fixture
def shop(workshop: Workshop, folder: Path, gone: Gone) -> Workshop:
    """Return a node's workshop with the real library on its shelf."""
    return shelved(workshop, folder / "custom.so", gone)


def shelved(workshop: Workshop, path: Path, gone: Gone) -> Workshop:
    row = Library(backend="onnxruntime", name=path.name, path=path, digest=digest_of_file(path))
    return replace(workshop, plugins=Shelf([row], lambda *told: gone.append(told)))


def recipe(backends: Backends, shop: Workshop, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    named = {"onnxruntime": [row.digest for row in shop.plugins.libraries]}
    version = backends["onnxruntime"].version
    return {"backend_version": version, "profiles": [], "plugins": named, **more}


def test_a_model_with_an_operator_of_a_plugin_is_built_with_a_copy_that_is_not_kept(
    served: Served, shop: Workshop, backends: Backends, tmp_path: Path
) -> None:
    path = made.save(tmp_path / "model", custom.inverse())
    model = served.put(path.read_bytes(), "model", "model.onnx")
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends, shop), [model])
    assert executor.attempt(shop, "job_1", 1) == "succeeded", served.finish["failure"]
    assert "plugins loaded: onnxruntime: custom.so" in served.log
    assert empty(shop.scratch)


def test_a_file_that_was_changed_is_not_loaded_and_the_node_hears_of_it(
    served: Served, shop: Workshop, backends: Backends, folder: Path, gone: Gone
) -> None:
    (digest,) = recipe(backends, shop)["plugins"]["onnxruntime"]
    (folder / "custom.so").write_bytes(b"other bytes")
    model = served.put(b"never fetched", "model", "model.onnx")
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe(backends, shop), [model])
    assert executor.attempt(shop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("plugin_changed", "node")
    assert gone == [("onnxruntime", digest)]
    assert "plugins loaded" not in served.log


def test_a_file_that_is_gone_ends_the_attempt(
    served: Served, shop: Workshop, backends: Backends, folder: Path, gone: Gone
) -> None:
    (folder / "custom.so").unlink()
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends, shop), [])
    assert executor.attempt(shop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("plugin_missing", "node")
    assert len(gone) == 1


def test_a_library_that_does_not_load_in_the_job_is_the_nodes_fault(
    served: Served, workshop: Workshop, backends: Backends, tmp_path: Path, gone: Gone
) -> None:
    (tmp_path / "none.so").write_bytes(b"no library")
    shop = shelved(workshop, tmp_path / "none.so", gone)
    path = made.save(tmp_path / "model", custom.inverse())
    model = served.put(path.read_bytes(), "model", "model.onnx")
    served.assign(Stage.CHECK, "onnxruntime@cpu", recipe(backends, shop), [model])
    assert executor.attempt(shop, "job_1", 1) == "failed"
    failure = served.finish["failure"]
    assert (failure["code"], failure["blame"]) == ("plugin_refused", "node")
