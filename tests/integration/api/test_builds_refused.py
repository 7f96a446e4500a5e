"""Builds that cannot be right are refused by their code, with what to do, and write nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from enginefarm.digest import digest_of
from enginefarm.state import Scope
from tests.integration.api.asked import OCTETS, TARGET, submit, upload
from tests.integration.api.made import npz, onnx_model
from tests.integration.api.node import enrol
from tests.integration.api.served import Served

DYNAMIC = onnx_model(["batch", 4])
X = {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}
BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "misspelt field": ({"profile": []}, 400, "unknown_field"),
    "misspelt option": ({"options": {"compile": {"workspace": 1}}}, 400, "unknown_field"),
    "misspelt stage": ({"options": {"compil": {}}}, 400, "unknown_field"),
    "misspelt gate": ({"gates": [{"metric": "cosin", "at_least": 1}]}, 400, "invalid_field"),
    "gate without a bound": ({"gates": [{"metric": "cosine"}]}, 400, "invalid_field"),
    "no targets": ({"targets": []}, 400, "invalid_field"),
    "the same target twice": ({"targets": [TARGET, TARGET]}, 400, "invalid_field"),
    "unknown backend": ({"targets": ["onnxruntme@cpu"]}, 400, "unknown_backend"),
    "unknown architecture": ({"targets": ["tensorrt@sm_91"]}, 400, "unknown_architecture"),
    "not a target": ({"targets": ["cpu"]}, 400, "invalid_target"),
    "impossible target": ({"targets": ["tensorrt-rtx@sm_90"]}, 400, "unsupported_architecture"),
    "an option of another backend": (
        {"options": {"compile": {"hardware_compatibility": "ampere-plus"}}},
        400,
        "option_unused",
    ),
    "a precision flag": ({"options": {"compile": {"fp16": True}}}, 400, "unknown_field"),
    "a target nobody serves": ({"targets": ["onnxruntime@sm_90"]}, 422, "target_not_served"),
    "a backend of another version": (
        {"targets": ["tensorrt-llm@sm_90"], "wait_for_node": 60},
        422,
        "backend_not_in_version",
    ),
    "dynamic input without a profile": ({"profiles": []}, 422, "profile_required"),
    "min above opt": ({"profiles": [{"x": X | {"min": [4, 4]}}]}, 422, "profile_order"),
    "wrong rank": ({"profiles": [{"x": X | {"opt": [2]}}]}, 422, "profile_rank"),
    "extra input": ({"profiles": [{"x": X, "y": X}]}, 422, "profile_unknown_input"),
    "missing input": ({"profiles": [{}]}, 422, "profile_missing_input"),
    "unknown model": ({"model": digest_of(b"none")}, 404, "unknown_model"),
    "unknown dataset": ({"evaluation": digest_of(b"none")}, 404, "unknown_dataset"),
    "not a digest": ({"model": "abc"}, 400, "invalid_field"),
    "a truth for a number": ({"priority": True}, 400, "invalid_field"),
    "a text for a number": ({"seed": "3"}, 400, "invalid_field"),
    "label that is no name": ({"labels": {"Team!": "x"}}, 400, "invalid_field"),
}


@pytest.mark.parametrize(("changes", "status", "code"), BAD.values(), ids=BAD.keys())
def test_a_bad_build_is_refused_by_its_code_and_nothing_is_written(
    api: Served, changes: dict[str, Any], status: int, code: str
) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        body = {"model": upload(client, DYNAMIC), "profiles": [{"x": X}]} | changes
        answer = submit(client, **body)

    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert answer.json()["detail"]
    assert answer.json()["fix"]
    assert api.rows("builds", "jobs", "outbox", "events") == {
        "builds": 0,
        "jobs": 0,
        "outbox": 0,
        "events": 0,
    }


def test_the_nearest_field_backend_and_input_are_named(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        model = upload(client, DYNAMIC)
        field = submit(client, model=model, profile=[{"x": X}]).json()
        backend = submit(client, model=model, targets=["onnxruntme@cpu"]).json()
        proposal = submit(client, model=model).json()

    assert "'profiles'" in field["fix"]
    assert "'onnxruntime'" in backend["fix"]
    assert proposal["code"] == "profile_required"
    assert "x=" in proposal["fix"] + str(proposal["context"])


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"z": [[0.0] * 4]}, "dataset_unknown_input"),
        ({"x": [0.0] * 4}, "dataset_rank"),
    ],
)
def test_a_dataset_that_does_not_fit_the_model_is_refused(
    api: Served, arrays: dict[str, Any], code: str
) -> None:
    data = npz(**{name: np.array(value, np.float32) for name, value in arrays.items()})
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        dataset = client.post("/v1/datasets", content=data, headers=OCTETS).json()["digest"]
        answer = submit(client, evaluation=dataset)

    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:enginefarm:problem:invalid-dataset"
    assert answer.json()["code"] == code
    assert api.rows("builds") == {"builds": 0}


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        (b'{"model": ', "application/json", "invalid_json"),
        (b"[]", "application/json", "invalid_body"),
        (b"null", "application/json", "invalid_body"),
        (b"", "application/json", "invalid_body"),
        (b'{"model": 1}', "text/plain", "invalid_body"),
        (b"\xff\xfe", "application/json", "invalid_json"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    api: Served, content: bytes, kind: str, code: str
) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/builds", content=content, headers={"Content-Type": kind})

    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text
