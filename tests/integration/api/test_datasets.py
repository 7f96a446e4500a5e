"""A dataset goes in as named arrays, and whatever is wrong with it is said and leaves nothing."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest

from enginefarm.digest import digest_of
from enginefarm.plan_views import PlanView
from enginefarm.state import Scope
from enginefarm.views import DatasetView
from tests.integration.api.asked import TARGET, upload
from tests.integration.api.made import npz
from tests.integration.api.node import enrol
from tests.integration.api.served import Served

OCTETS = {"Content-Type": "application/octet-stream"}
GOOD = npz(x=np.zeros((3, 4), np.float32))


def test_the_same_arrays_in_either_form_are_one_dataset(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        bare = client.post("/v1/datasets?name=faces", content=GOOD, headers=OCTETS)
        form = client.post("/v1/datasets", files={"file": ("x.npz", GOOD)})
        shown = client.get(bare.headers["location"])

    view = DatasetView.model_validate(bare.json())
    assert (bare.status_code, form.status_code) == (201, 200)
    assert (view.digest, view.name, view.samples) == (digest_of(GOOD), "faces", 3)
    assert [(array.name, array.dtype, array.shape) for array in view.arrays] == [
        ("x", "float32", [3, 4])
    ]
    assert DatasetView.model_validate(shown.json()) == view
    assert api.rows("datasets", "blobs") == {"datasets": 1, "blobs": 1}
    assert api.left() == []


def test_a_dry_run_tells_what_an_upload_has_seen_of_calibration_data(api: Served) -> None:
    same, wide = np.full((9, 4), 0.5, np.float32), np.arange(36, dtype=np.float32).reshape(9, 4)
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        sent = (npz(x=same), npz(x=wide))
        constant, held_out = (
            client.post("/v1/datasets", content=data, headers=OCTETS).json()["digest"]
            for data in sent
        )
        body = {
            "model": upload(client),
            "targets": [TARGET],
            "evaluation": held_out,
            "precision": {"kind": "int8", "calibration": constant},
        }
        answer = client.post("/v1/builds?dry_run", json=body)

    plan = PlanView.model_validate(answer.json())
    told = {row.code: row.message for row in plan.calibration or []}
    assert told["calibration_constant"] == "The input x is 0.5 in every sample."
    assert "reaches 0.5 in the calibration data and 35" in told["calibration_range_differs"]
    assert "calibration_seen_later" in told
    assert api.rows("builds") == {"builds": 0}


def pickled() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.array([{"a": 1}], dtype=object))
    return stream.getvalue()


BAD = {
    "not an archive": b"hello",
    "empty": b"",
    "truncated": GOOD[:-20],
    "pickles": pickled(),
    "NaN": npz(x=np.array([[0.0, np.nan]], np.float32)),
    "infinity": npz(x=np.array([[0.0, np.inf]], np.float32)),
    "no array": npz(),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_a_bad_dataset_is_refused_and_leaves_nothing(api: Served, data: bytes) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/datasets", content=data, headers=OCTETS)

    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:enginefarm:problem:invalid-dataset"
    assert answer.json()["code"] != "internal"
    assert answer.json()["fix"]
    assert api.rows("datasets", "blobs") == {"datasets": 0, "blobs": 0}
    assert api.left() == []


def test_nan_is_named_by_its_array(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/datasets", content=BAD["NaN"], headers=OCTETS)

    assert answer.json()["code"] == "dataset_non_finite"
    assert "'x'" in answer.json()["detail"] + answer.json()["why"]


def test_a_dataset_above_the_limit_is_refused(serve: Callable[..., Served]) -> None:
    api = serve(max_dataset_bytes=1000)

    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/datasets", content=b"\0" * 100_000, headers=OCTETS)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert api.left() == []


def test_another_digest_than_was_sent_along_is_refused(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post(
            "/v1/datasets",
            files={"file": ("x.npz", GOOD)},
            data={"digest": digest_of(b"other")},
        )

    assert (answer.status_code, answer.json()["code"]) == (400, "digest_mismatch")
    assert api.rows("datasets") == {"datasets": 0}


def test_a_foreign_dataset_is_not_found(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        client.post("/v1/datasets", content=GOOD, headers=OCTETS)
    with api.client(Scope.ADMIN, tenant="other") as client:
        answer = client.get(f"/v1/datasets/{digest_of(GOOD)}")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_dataset")
