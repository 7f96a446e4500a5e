"""Builds of models that are like no other, asked of a farm whose parts come and go."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx
from onnx import TensorProto, helper
from sqlalchemy import create_engine, text

from enginefarm.digest import digest_of
from localfarm.services import Services
from tests.e2e.conftest import wait_until

QUICK = {"benchmark": {"min_iterations": 10, "min_duration_ms": 1, "max_duration_ms": 200}}
# Long enough for a beat or two, which come every second here.
LONG = {"benchmark": {"min_iterations": 10, "min_duration_ms": 3000, "max_duration_ms": 4000}}
# Long enough for a test to see it run, and to do something to it, on a machine that is busy.
LASTING = {
    "benchmark": {"min_iterations": 10, "min_duration_ms": 10_000, "max_duration_ms": 12_000}
}
ONCE = {"builds_of_model": 1, "artifacts": 1, "attestations": 1, "other bytes": 0}


class Farm(Protocol):
    """A farm as its user sees it, and the folder of its services."""

    @property
    def folder(self) -> Path:
        """Where its services keep their data."""

    def http(self) -> httpx.Client:
        """Return a client that speaks as the farm's user does."""


def model_bytes(values: int = 4) -> bytes:
    """Return a model that is like no other, and tiny unless it is given more weights."""
    own = [float(b) for b in uuid.uuid4().bytes[:4]]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [values // 4, 4], own * (values // 4))
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["w"], ["m"], axes=[0]),
            helper.make_node("Add", ["x", "m"], ["y"]),
        ],
        "added",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def model_of(farm: Farm) -> str:
    """Upload a model that is like no other; return its digest."""
    data = model_bytes()
    answer = persistently(farm, lambda http: http.post("/v1/models?name=tiny", content=data))
    return str(answer.json()["digest"])


def persistently(farm: Farm, ask: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
    """Ask until there is an answer, as every client of a farm whose parts come and go must."""

    def probe() -> httpx.Response | None:
        try:
            with farm.http() as http:
                answer = ask(http)
        except httpx.TransportError:
            return None
        return None if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR else answer

    answer = wait_until("an answer", 180, probe)
    assert answer.is_success, answer.text
    return answer


def submit(farm: Farm, model: str, options: Mapping[str, object] = QUICK, **changes: object) -> str:
    """Submit a build under a key of its own, so that asking again is asking once."""
    body = {"model": model, "targets": ["onnxruntime@cpu"], "options": options, **changes}
    body["wait_for_node"] = 120  # the only node may be coming back
    key = {"Idempotency-Key": uuid.uuid4().hex}
    answer = persistently(farm, lambda http: http.post("/v1/builds", json=body, headers=key))
    return str(answer.json()["id"])


def ended(farm: Farm, build: str) -> dict[str, Any]:
    """Return a build's view once it has ended."""

    def probe() -> dict[str, Any] | None:
        view = view_of(farm, build)
        return view if view["finished_at"] else None

    return wait_until(f"the end of build {build}", 240, probe)


def view_of(farm: Farm, build: str) -> dict[str, Any]:
    """Return a build as the API shows it."""
    answer = persistently(farm, lambda http: http.get(f"/v1/builds/{build}"))
    view: dict[str, Any] = answer.json()
    return view


def published(farm: Farm, build: str) -> dict[str, int]:
    """See the build end well; count what came of it, and the blobs that are not what was signed."""
    view = ended(farm, build)
    assert view["state"] == "succeeded", view
    (target,) = view["targets"]
    counts = count_rows(farm, build) | {"other bytes": 0}
    manifest = persistently(farm, lambda http: http.get(f"/v1/artifacts/{target['artifact']}"))
    for row in [manifest.json()["config"], *manifest.json()["layers"]]:
        path = f"/v1/blobs/{row['digest']}?proxy=1"
        blob = persistently(farm, lambda http, path=path: http.get(path))  # type: ignore[misc]
        counts["other bytes"] += digest_of(blob.content) != row["digest"]
    return counts


def count_rows(farm: Farm, build: str) -> dict[str, int]:
    """Count what the database holds of a build that must be there once."""
    questions = {
        "builds_of_model": "SELECT count(*) FROM builds WHERE model_digest = "
        "(SELECT model_digest FROM builds WHERE id = :build)",
        "artifacts": "SELECT count(*) FROM artifacts WHERE build_id = :build",
        "attestations": "SELECT count(*) FROM attestations JOIN jobs ON jobs.id = job_id "
        "WHERE build_id = :build",
    }
    return {
        name: int(rows(farm, question, build=build)[0][0]) for name, question in questions.items()
    }


def rows(farm: Farm, question: str, **values: object) -> list[Any]:
    """Ask the farm's database."""
    engine = create_engine(Services(farm.folder).postgres.url("enginefarm"))
    with engine.connect() as connection:
        found = list(connection.execute(text(question), values))
    engine.dispose()
    return found
