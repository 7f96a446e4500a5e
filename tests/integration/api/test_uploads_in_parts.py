"""A model comes in parts, goes on where it stopped, and is a model only once it was read again."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from enginefarm.digest import digest_of, repr_digest
from enginefarm.state import Scope
from storage.objects import S3Objects
from tests.integration.api import parts_sent as sent
from tests.integration.api.made import onnx_model, with_external
from tests.integration.api.served import Served

LEAST = 5 << 20
OTHER = {"Repr-Digest": repr_digest(digest_of(b""))}
PARTS = {"upload_part_bytes": LEAST}


def large(extra: int = 9) -> dict[str, bytes]:
    """Return a model whose weights come in two parts."""
    size = LEAST + extra
    return {"big.onnx": with_external("weights.bin"), "weights.bin": bytes(16) + b"w" * (size - 16)}


@pytest.fixture
def farm_api(serve: Callable[..., Served]) -> Served:
    return serve(**PARTS)


def bucket(api: Served, prefix: str = "uploads/") -> list[str]:
    """Return what the bucket holds of uploads, parts included."""
    objects = api.farm.objects
    assert isinstance(objects, S3Objects)
    client, name = objects._client, objects._bucket
    listed = client.list_objects_v2(Bucket=name, Prefix=prefix).get("Contents", [])
    begun = client.list_multipart_uploads(Bucket=name, Prefix=prefix).get("Uploads") or []
    return [row["Key"] for row in (*listed, *begun)]


def test_a_large_model_goes_straight_to_the_bucket_and_becomes_a_model(farm_api: Served) -> None:
    files = large()
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files, name="large one")
        again = sent.shown(client, upload)
        sent.send_all(client, upload, files)
        there = sent.shown(client, upload)
        completed = sent.complete(client, upload)
        sent.verified(farm_api.farm)
        done = sent.shown(client, upload)
        model = client.get(f"/v1/models/{done['model']}").json()

    assert again == upload
    assert [file["part_count"] for file in upload["files"]] == [1, 2]
    assert [file["received"] for file in there["files"]] == [[1], [1, 2]]
    assert (completed.status_code, completed.json()["state"]) == (200, "verifying")
    assert (done["state"], done["verified_bytes"]) == ("done", upload["size"])
    assert (model["name"], model["node_count"]) == ("large one", 1)
    assert [file["name"] for file in model["files"]] == ["model.onnx", "weights.bin"]
    for data in files.values():
        farm_api.farm.objects.confirm(digest_of(data), len(data))
    assert bucket(farm_api, f"uploads/{upload['id']}/") == []


def test_a_model_is_the_same_whichever_way_it_comes(farm_api: Served) -> None:
    files = {"m.onnx": with_external("weights.bin"), "weights.bin": bytes(16)}
    with farm_api.client(Scope.SUBMIT) as client:
        done = sent.uploaded(client, farm_api.farm, files)
        one = client.post("/v1/models", files=[("file", item) for item in files.items()])

    assert (one.status_code, one.json()["digest"]) == (200, done["model"])


def test_it_goes_on_where_it_stopped_from_another_machine(farm_api: Served) -> None:
    files = large()
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
        first, *rest = sent.missing(upload, files)
        sent.send(client, upload, rest[-1])
    with farm_api.client(Scope.SUBMIT) as other:
        view = sent.shown(other, upload)
        left = [(at, number) for at, number, _ in sent.missing(view, files)]
        early = sent.complete(other, upload)
        sent.send_all(other, view, files)
        late = sent.complete(other, upload)

    assert left == [(0, 1), (1, 1)]
    assert (early.status_code, early.json()["code"]) == (409, "upload_incomplete")
    assert early.json()["context"]["missing"] == {"big.onnx": 1, "weights.bin": 1}
    assert late.json()["state"] == "verifying"
    assert first[0] == 0


def test_parts_may_come_twice_and_in_any_order(farm_api: Served) -> None:
    files = large()
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
        for part in [*reversed(list(sent.missing(upload, files)))] * 2:
            sent.send(client, upload, part)
        sent.complete(client, upload)
        again = sent.complete(client, upload)
        sent.verified(farm_api.farm)
        done = sent.shown(client, upload)

    assert again.status_code == 200
    assert done["state"] == "done"


def test_parts_go_through_the_farm_where_the_bucket_cannot_be_reached(
    serve: Callable[..., Served],
) -> None:
    api = serve(**PARTS, direct_uploads=False)
    files = large()
    with api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
        for at, number, data in sent.missing(upload, files):
            slots = sent.ask(client, upload, (at, number, data)).json()["parts"]
            assert slots == [{"file": at, "number": number, "url": None, "headers": {}}]
            path = f"/v1/uploads/{upload['id']}/files/{at}?part={number}"
            short = client.put(path, content=data[:-1])
            wrong = client.put(
                path, content=data, headers={"Repr-Digest": repr_digest(digest_of(b""))}
            )
            right = client.put(path, content=data)
            assert [a.json().get("code") for a in (short, wrong)] == [
                "part_size",
                "digest_mismatch",
            ]
            assert right.status_code == 200, right.text
        sent.complete(client, upload)
        sent.verified(api.farm)
        done = sent.shown(client, upload)

    assert done["state"] == "done"
    assert api.left() == []


def test_what_the_tenant_has_is_not_sent_again_and_what_others_have_is_not_told(
    farm_api: Served,
) -> None:
    """Whether somebody else has a model is nobody's business."""
    files = large()
    weights = digest_of(files["weights.bin"])
    with farm_api.client(Scope.SUBMIT) as client:
        sent.uploaded(client, farm_api.farm, files)
        changed = files | {"big.onnx": with_external("weights.bin", offset=8)}
        second = sent.declare(client, changed)
        head = client.head(f"/v1/blobs/{weights}")
        sent.send_all(client, second, changed)
        sent.complete(client, second)
        sent.verified(farm_api.farm)
        done = sent.shown(client, second)
    with farm_api.client(Scope.SUBMIT, tenant="rival") as rival:
        third = sent.declare(rival, files)
        hidden = rival.head(f"/v1/blobs/{weights}")
        sent.send_all(rival, third, files)
        sent.complete(rival, third)
        sent.verified(farm_api.farm)
        theirs = sent.shown(rival, third)

    assert [file["present"] for file in second["files"]] == [False, True]
    assert second["size"] == len(changed["big.onnx"])
    assert done["state"] == "done"
    assert (head.status_code, int(head.headers["content-length"])) == (
        200,
        len(files["weights.bin"]),
    )
    assert [file["present"] for file in third["files"]] == [False, False]
    assert (hidden.status_code, theirs["state"]) == (404, "done")


def test_a_lost_blob_is_asked_for_again(farm_api: Served) -> None:
    files = {"m.onnx": onnx_model()}
    with farm_api.client(Scope.SUBMIT) as client:
        sent.uploaded(client, farm_api.farm, files)
        farm_api.farm.objects.remove(digest_of(files["m.onnx"]))
        again = sent.declare(client, files)

    assert [file["present"] for file in again["files"]] == [False]


def test_another_tenants_upload_is_not_there(farm_api: Served) -> None:
    files = {"m.onnx": onnx_model()}
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
    path = f"/v1/uploads/{upload['id']}"
    with farm_api.client(Scope.SUBMIT, tenant="rival") as rival:
        answers = [
            rival.get(path),
            rival.delete(path),
            rival.post(f"{path}/complete"),
            sent.ask(rival, upload, (0, 1, files["m.onnx"])),
            rival.put(f"{path}/files/0?part=1", content=files["m.onnx"]),
        ]

    assert {(a.status_code, a.json()["code"]) for a in answers} == {(404, "unknown_upload")}


def test_bytes_that_are_not_those_that_were_declared_never_get_their_digest(
    farm_api: Served,
) -> None:
    """Each part is what it was announced as; together they are something else."""
    files = large(41)  # of which no other test has sent the weights
    evil = {**files, "weights.bin": files["weights.bin"][::-1]}
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
        sent.send_all(client, upload, evil)
        sent.complete(client, upload)
        sent.verified(farm_api.farm)
        done = sent.shown(client, upload)

    assert (done["state"], done["failure"]["code"]) == ("failed", "digest_mismatch")
    assert done["failure"]["context"]["actual"] == digest_of(evil["weights.bin"])
    assert farm_api.farm.objects.head(digest_of(files["weights.bin"])) is None
    assert farm_api.rows("models", "blobs") == {"models": 0, "blobs": 0}


def test_a_part_cannot_become_another(farm_api: Served) -> None:
    files = large()
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
        first = next(sent.missing(upload, files))
        sent.send(client, upload, first)
        other = sent.ask(client, upload, (first[0], first[1], b"else"))

    assert (other.status_code, other.json()["code"]) == (409, "part_differs")


def test_what_was_removed_takes_nothing_more_and_leaves_the_bucket(farm_api: Served) -> None:
    files = large()
    with farm_api.client(Scope.SUBMIT) as client:
        upload = sent.declare(client, files)
        parts = list(sent.missing(upload, files))
        sent.send(client, upload, parts[0])
        late = sent.ask(client, upload, parts[1]).json()["parts"][0]
        removed = client.delete(f"/v1/uploads/{upload['id']}")
        sent.verified(farm_api.farm)
        put = httpx.put(late["url"], headers=late["headers"], content=parts[1][2])
        refused = [sent.ask(client, upload, parts[1]), sent.complete(client, upload)]
        again = client.delete(f"/v1/uploads/{upload['id']}")

    assert removed.json()["state"] == "cancelled"
    assert put.status_code == 404
    assert {(a.status_code, a.json()["code"]) for a in refused} == {(409, "upload_not_open")}
    assert again.status_code == 200
    assert bucket(farm_api, f"uploads/{upload['id']}/") == []
