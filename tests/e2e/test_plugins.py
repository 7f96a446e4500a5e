"""Plugins on one node of two: who gets the jobs, and what follows from a file that was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from enginefarm.digest import digest_of_file
from tests.contract.backends import custom_operators
from tests.e2e.builds import ONCE, QUICK, persistently, published, submit, view_of
from tests.e2e.conftest import wait_until
from tests.e2e.parts import NODE, Parts

pytestmark = [pytest.mark.e2e, pytest.mark.soak]
EQUIPPED = "equipped"


def model_of(parts: Parts, name: str) -> str:
    """Upload a model with an operator of the plugin; return its digest."""
    made: onnx.ModelProto = custom_operators.inverse()
    made.graph.name = name
    data = made.SerializeToString()
    answer = persistently(parts, lambda http: http.post("/v1/models?name=own", content=data))
    return str(answer.json()["digest"])


def node_of(parts: Parts, name: str) -> dict[str, Any]:
    rows = persistently(parts, lambda http: http.get("/v1/nodes")).json()
    found: dict[str, Any] = next(row for row in rows if row["name"] == name)
    return found


def libraries(parts: Parts) -> list[tuple[str, list[str]]]:
    """Return which plugins live nodes have, and which nodes."""
    rows = persistently(parts, lambda http: http.get("/v1/plugins")).json()
    return [(row["name"], row["nodes"]) for row in rows]


def nodes(view: dict[str, Any]) -> set[str]:
    return {row["node"] for row in view["jobs"] if row["stage"] != "publish"}


def test_jobs_go_to_the_node_that_has_the_plugin_until_it_has_another_in_its_place(
    parts: Parts, tmp_path: Path
) -> None:
    crashing = custom_operators.compiled(tmp_path, "crashing", custom_operators.CRASHES)
    folder = custom_operators.laid(tmp_path, crashing)
    library = folder / "onnxruntime" / "custom.so"
    named = QUICK | {"plugins": {"onnxruntime": [digest_of_file(library)]}}
    parts.start(EQUIPPED, node_plugins=str(folder))
    assert libraries(parts) == [("custom.so", [EQUIPPED])]
    assert node_of(parts, NODE)["state"] == "active"
    assert "crashing.so" in parts.child(EQUIPPED).log.read_text()

    build = submit(parts, model_of(parts, "first"), named)
    assert published(parts, build) == ONCE
    assert nodes(view_of(parts, build)) == {EQUIPPED}

    library.write_bytes(b"another library")
    build = submit(parts, model_of(parts, "second"), named)

    def failed() -> list[dict[str, Any]] | None:
        attempts = [each for row in view_of(parts, build)["jobs"] for each in row["attempts"]]
        return [each["failure"] for each in attempts if each["failure"]] or None

    failures = wait_until("an attempt that fails", 120, failed)
    assert {(row["code"], row["blame"]) for row in failures} == {("plugin_changed", "node")}
    wait_until(
        "the node to announce it no more",
        60,
        lambda: libraries(parts) == [] or None,
    )
    assert node_of(parts, EQUIPPED)["state"] == "active"
    persistently(parts, lambda http: http.post(f"/v1/builds/{build}/cancel"))
