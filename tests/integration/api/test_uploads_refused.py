"""What cannot become a model is refused when it is declared, or when it was read; nothing stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.state import Scope
from storage import tenants
from storage.models import Upload
from storage.objects import S3Objects
from tests.integration.api import parts_sent as sent
from tests.integration.api.made import onnx_model, with_external
from tests.integration.api.served import Served


@pytest.fixture
def farm_api(serve: Callable[..., Served]) -> Served:
    return serve(upload_part_bytes=5 << 20)


def bucket(api: Served, prefix: str = "uploads/") -> list[str]:
    """Return what the bucket holds of uploads, parts included."""
    objects = api.farm.objects
    assert isinstance(objects, S3Objects)
    client, name = objects._client, objects._bucket
    listed = client.list_objects_v2(Bucket=name, Prefix=prefix).get("Contents", [])
    begun = client.list_multipart_uploads(Bucket=name, Prefix=prefix).get("Uploads") or []
    return [row["Key"] for row in (*listed, *begun)]


GOOD = onnx_model()
REFUSED: dict[str, tuple[dict[str, bytes], str]] = {
    "truncated": ({"m.onnx": GOOD[:-7]}, "model_truncated"),
    "a pickle": ({"m.onnx": b"\x80\x04\x95rest"}, "pickle_refused"),
    "file not referenced": ({"m.onnx": GOOD, "other.bin": b"1"}, "file_not_referenced"),
    "external data missing": ({"m.onnx": with_external("w.bin")}, "external_data_missing"),
    "external data short": (
        {"m.onnx": with_external("w.bin"), "w.bin": b"123"},
        "external_data_short",
    ),
    "external data escapes": (
        {"m.onnx": with_external("../w.bin"), "w.bin": bytes(16)},
        "external_path_escapes",
    ),
}


@pytest.mark.parametrize(("files", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_model_is_refused_when_it_was_read_and_leaves_nothing(
    farm_api: Served, files: dict[str, bytes], code: str
) -> None:
    with farm_api.client(Scope.SUBMIT) as client:
        done = sent.uploaded(client, farm_api.farm, files)

    assert (done["state"], done["model"]) == ("failed", None)
    assert done["failure"]["code"] == code
    assert done["failure"]["fix"]
    assert farm_api.rows("models", "blobs") == {"models": 0, "blobs": 0}
    assert bucket(farm_api, f"uploads/{done['id']}/") == []


@pytest.mark.parametrize(
    ("part", "code"),
    [((0, 2), "no_such_part"), ((2, 1), "no_such_part"), ((0, 0), "invalid_field")],
)
def test_a_part_that_the_upload_does_not_have_is_refused(
    farm_api: Served, part: tuple[int, int], code: str
) -> None:
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, {"m.onnx": onnx_model()})
        answer = sent.ask(client, upload, (*part, b"x"))

    assert (answer.status_code, answer.json()["code"]) == (400, code)


BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "no model file": (sent.declaration({"a.bin": b"1", "b.bin": b"2"}), 400, "one_model_file"),
    "two model files": (sent.declaration({"a.onnx": b"1", "b.onnx": b"2"}), 400, "one_model_file"),
    "our own name": (sent.declaration({"a.onnx": b"1", "model.plan": b"2"}), 400, "bad_file_name"),
    "a path": (sent.declaration({"a.onnx": b"1", "../w.bin": b"2"}), 400, "bad_file_name"),
    "nothing": ({"files": []}, 400, "invalid_field"),
    "no bytes": (sent.declaration({"a.onnx": b""}), 400, "invalid_field"),
    "misspelt": ({"file": []}, 400, "unknown_field"),
    "a name twice": (
        {
            "files": [
                {"name": name, "size": 1, "digest": digest_of(b"1")}
                for name in ("a.onnx", "w.bin", "w.bin")
            ]
        },
        400,
        "bad_file_name",
    ),
    "above 2 GiB as one message": (
        {"files": [{"name": "m.onnx", "size": 2 << 30, "digest": digest_of(b"")}]},
        422,
        "model_file_too_large",
    ),
    "above the operator's limit": (
        {
            "files": [
                {"name": "m.onnx", "size": 9, "digest": digest_of(b"")},
                {"name": "w.bin", "size": 1 << 40, "digest": digest_of(b"1")},
            ]
        },
        413,
        "too_large",
    ),
}


@pytest.mark.parametrize(("body", "status", "code"), BAD.values(), ids=BAD)
def test_a_declaration_that_cannot_be_right_is_refused(
    farm_api: Served, body: dict[str, Any], status: int, code: str
) -> None:
    with farm_api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/uploads", json=body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert farm_api.rows("uploads") == {"uploads": 0}


def test_what_is_declared_counts_as_kept(farm_api: Served) -> None:
    """Otherwise many uploads at once would each find room for itself."""
    data = onnx_model()
    with farm_api.farm.database.transaction() as session:
        tenants.get(session, farm_api.tenant()).max_bytes = len(data) + 10
    with farm_api.client(Scope.SUBMIT) as client:
        first = sent.declare(client, {"m.onnx": data})
        second = client.post("/v1/uploads", json=sent.declaration({"n.onnx": onnx_model(salt=1)}))
        whole = client.post("/v1/models", content=onnx_model(salt=2))
        client.delete(f"/v1/uploads/{first['id']}")
        third = client.post("/v1/uploads", json=sent.declaration({"n.onnx": onnx_model(salt=1)}))

    assert {(a.status_code, a.json()["code"]) for a in (second, whole)} == {(429, "quota_bytes")}
    assert third.status_code == 201


def test_uploads_that_nobody_ends_are_bounded(farm_api: Served) -> None:
    with farm_api.client(Scope.SUBMIT) as client:
        first = sent.declare(client, {"m.onnx": onnx_model()})
        with farm_api.farm.database.transaction() as session:
            row = session.get_one(Upload, first["id"])
            session.add_all(
                Upload(
                    id=f"upl_{number}",
                    tenant_id=row.tenant_id,
                    name="m",
                    state=row.state,
                    files=row.files,
                    transfers={},
                    size=1,
                )
                for number in range(99)
            )
        answer = client.post("/v1/uploads", json=sent.declaration({"n.onnx": onnx_model(salt=1)}))

    assert (answer.status_code, answer.json()["code"]) == (429, "quota_uploads")
