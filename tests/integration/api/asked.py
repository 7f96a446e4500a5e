"""What a person asks of the API, a model taken in and a build of it, and how it is carried out."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tasks.publish import publish_due
from tasks.settle import settle_due
from tests.integration.api.made import onnx_model
from tests.integration.api.node import Node
from tests.integration.api.served import Served

OCTETS = {"Content-Type": "application/octet-stream"}
TARGET = "onnxruntime@cpu"


def upload(client: httpx.Client, data: bytes | None = None) -> str:
    """Send a model, a small one unless told; return its digest."""
    answer = client.post("/v1/models", content=data or onnx_model(), headers=OCTETS)
    assert answer.status_code in (200, 201), answer.text
    digest: str = answer.json()["digest"]
    return digest


def submit(client: httpx.Client, **changes: Any) -> httpx.Response:  # noqa: ANN401 - JSON
    """Ask for a build: ``changes`` to the everyday body, and ``headers``."""
    model = changes.pop("model", None) or upload(client)
    headers = changes.pop("headers", {})
    body = {"model": model, "targets": [TARGET]} | changes
    return client.post("/v1/builds", json=body, headers=headers)


def run_to_the_end(api: Served, node: Node) -> None:
    """Let the node and the control plane work until nothing is left to do."""
    signer = api.farm.signer
    assert signer is not None
    for _ in range(20):
        job_id = node.next_job()
        if job_id is not None:
            node.work(job_id)
        if not settle_due(api.farm) and not publish_due(api.farm, signer) and job_id is None:
            return
    pytest.fail("the build did not come to an end")
