"""A model goes in once, and whatever is wrong with it is said and leaves nothing behind."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Callable
from functools import partial

import httpx
import pytest
from onnx import TensorProto, helper

from enginefarm.digest import canonical_json, digest_of, repr_digest
from enginefarm.state import Scope
from enginefarm.views import ModelView
from storage.objects import S3Objects
from storage.settings import StorageSettings
from tasks.farm import Farm
from tests.integration.api.made import crowded_model, onnx_model, with_external
from tests.integration.api.served import Served

OCTETS = {"Content-Type": "application/octet-stream"}
Files = list[tuple[str, tuple[str, bytes]]]


def part(name: str, data: bytes) -> tuple[str, tuple[str, bytes]]:
    return ("file", (name, data))


def test_a_form_becomes_a_model_whose_digest_is_that_of_its_files(api: Served) -> None:
    data = onnx_model(["batch", 4])

    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/models", files=[part("doubler.onnx", data)])
        view = ModelView.model_validate(answer.json())
        again = client.get(answer.headers["location"])

    listing = [{"digest": digest_of(data), "name": "model.onnx", "size": len(data)}]
    assert answer.status_code == 201
    assert view.digest == digest_of(canonical_json({"files": listing}))
    assert (view.name, view.size, view.existed) == ("doubler", len(data), False)
    assert [(each.name, each.shape) for each in view.inputs] == [("x", ["batch", 4])]
    assert view.opsets == {"ai.onnx": 17}
    assert view.node_count == 1
    assert ModelView.model_validate(again.json()) == view
    assert api.farm.objects.read(digest_of(data), 1 << 20) == data
    assert api.left() == []


def test_a_bare_body_and_a_form_of_the_same_bytes_are_one_model(api: Served) -> None:
    data = onnx_model()

    with api.client(Scope.SUBMIT) as client:
        first = client.post("/v1/models?name=one", content=data, headers=OCTETS)
        second = client.post("/v1/models", files=[part("two.onnx", data)])

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["existed"] is True
    assert second.json()["digest"] == first.json()["digest"]
    assert second.json()["name"] == "one"
    assert api.rows("models", "blobs") == {"models": 1, "blobs": 1}


def test_external_data_is_part_of_the_model(api: Served) -> None:
    graph = part("big.onnx", with_external("weights.bin"))
    files = [graph, part("weights.bin", b"\0" * 16)]

    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/models", files=files)
        trained = client.post("/v1/models", files=[graph, part("weights.bin", b"\1" * 16)])

    assert answer.status_code == 201, answer.text
    assert [file["name"] for file in answer.json()["files"]] == ["model.onnx", "weights.bin"]
    # The graph is the same to the byte, and with other weights it is another model.
    assert trained.status_code == 201, trained.text
    assert trained.json()["digest"] != answer.json()["digest"]
    assert api.rows("models", "blobs") == {"models": 2, "blobs": 3}


def test_the_digest_sent_along_is_checked_in_every_form(api: Served) -> None:
    data = onnx_model()
    right = f"sha-512=:YWJj:, {repr_digest(digest_of(data))}"

    with api.client(Scope.SUBMIT) as client:
        form = client.post(
            "/v1/models", files=[part("m.onnx", data)], data={"digest": digest_of(data)}
        )
        bare = client.post("/v1/models", content=data, headers=OCTETS | {"Repr-Digest": right})

    assert (form.status_code, bare.status_code) == (201, 200)


def test_models_are_listed_newest_first_and_only_ones_own(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        for salt in range(3):
            client.post("/v1/models", content=onnx_model(salt=salt), headers=OCTETS)
        listed = client.get("/v1/models?limit=2").json()
    with api.client(Scope.READ, tenant="other") as client:
        foreign = client.get("/v1/models").json()
        hidden = client.get(f"/v1/models/{listed[0]['digest']}")

    assert len(listed) == 2
    assert foreign == []
    assert (hidden.status_code, hidden.json()["code"]) == (404, "unknown_model")


def test_the_list_tells_the_first_few_of_a_long_interface_and_the_model_all(api: Served) -> None:
    names = [f"{number:04}_{'long' * 50}" for number in range(300)]
    info = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=[1])
    nodes = [helper.make_node("Identity", [name], [f"y_{name}"]) for name in names]
    graph = helper.make_graph(
        nodes, "wide", [info(name) for name in names], [info(f"y_{name}") for name in names]
    )
    data = helper.make_model(graph, ir_version=9).SerializeToString()

    with api.client(Scope.SUBMIT) as client:
        model = client.post("/v1/models", content=data, headers=OCTETS).json()
        listed = client.get("/v1/models")
        whole = client.get(f"/v1/models/{model['digest']}").json()

    (row,) = listed.json()
    assert len(listed.content) < 4000
    assert [tensor["name"] for tensor in row["inputs"]] == names[:4]
    assert (row["input_count"], row["output_count"], row["file_count"]) == (300, 300, 1)
    assert [tensor["name"] for tensor in whole["inputs"]] == names
    assert (row["node_count"], row["opsets"]) == (whole["node_count"], whole["opsets"])


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"
GOOD = onnx_model()
BAD: dict[str, tuple[Files, int, str]] = {
    "not a model": ([part("m.onnx", b"hello, this is not a model")], 422, "not_a_model"),
    "truncated": ([part("m.onnx", GOOD[:-7])], 422, "model_truncated"),
    "git lfs pointer": ([part("m.onnx", LFS)], 422, "lfs_pointer"),
    "0 bytes": ([part("m.onnx", b"")], 422, "empty_file"),
    "external data missing": (
        [part("m.onnx", with_external("weights.bin"))],
        422,
        "external_data_missing",
    ),
    "external data short": (
        [part("m.onnx", with_external("weights.bin")), part("weights.bin", b"\0" * 15)],
        422,
        "external_data_short",
    ),
    "external data absolute": (
        [part("m.onnx", with_external("/etc/passwd"))],
        422,
        "external_path_escapes",
    ),
    "external data above": (
        [part("m.onnx", with_external("../weights.bin"))],
        422,
        "external_path_escapes",
    ),
    "file that the model does not name": (
        [part("m.onnx", GOOD), part("weights.bin", b"")],
        422,
        "file_not_referenced",
    ),
    "two models": ([part("a.onnx", GOOD), part("b.onnx", GOOD)], 400, "one_model_file"),
    "no model": ([part("a.bin", GOOD), part("b.bin", GOOD)], 400, "one_model_file"),
    "a folder in the name": ([part("../m.onnx", GOOD)], 400, "bad_file_name"),
    "a name of ours": (
        [part("m.onnx", with_external("model.plan")), part("model.plan", b"\0" * 16)],
        400,
        "bad_file_name",
    ),
    "a name for a shell": (
        [part("m.onnx", with_external("a b.bin")), part("a b.bin", b"\0" * 16)],
        400,
        "bad_file_name",
    ),
}


def refused(api: Served, answer: httpx.Response, status: int, code: str) -> None:
    """The answer is this problem, and nothing is left of the upload."""
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert api.rows("models", "blobs") == {"models": 0, "blobs": 0}
    assert api.left() == []


@pytest.mark.parametrize(("files", "status", "code"), BAD.values(), ids=BAD.keys())
def test_a_bad_model_is_refused_by_its_code_and_leaves_nothing(
    api: Served, files: Files, status: int, code: str
) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/models", files=files)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    refused(api, answer, status, code)


def test_another_digest_than_was_sent_along_is_refused(api: Served) -> None:
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()

    with api.client(Scope.SUBMIT) as client:
        form = client.post(
            "/v1/models",
            files=[part("m.onnx", GOOD)],
            data={"digest": digest_of(b"other")},
        )
        bare = client.post(
            "/v1/models", content=GOOD, headers=OCTETS | {"Repr-Digest": f"sha-256=:{wrong}:"}
        )

    refused(api, form, 400, "digest_mismatch")
    refused(api, bare, 400, "digest_mismatch")
    assert form.json()["context"]["actual"] == digest_of(GOOD)


def test_a_misspelt_form_field_is_refused_and_the_nearest_named(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post(
            "/v1/models", files=[part("m.onnx", GOOD)], data={"diggest": digest_of(GOOD)}
        )

    refused(api, answer, 400, "unknown_field")
    assert "'digest'" in answer.json()["fix"]


def test_a_body_above_the_limit_is_refused_declared_or_not(serve: Callable[..., Served]) -> None:
    api = serve(max_model_bytes=1000)
    body = b"\0" * 400_000

    with api.client(Scope.SUBMIT) as client:
        declared = client.post("/v1/models", content=body, headers=OCTETS)
        chunked = client.post("/v1/models", content=iter([body[:100_000]] * 4), headers=OCTETS)

    for answer in (declared, chunked):
        refused(api, answer, 413, "too_large")
        assert answer.json()["context"]["limit_bytes"] > 0


def test_a_sender_that_goes_away_leaves_nothing(api: Served) -> None:
    def half() -> object:
        yield b"\x08\x09" * 100_000
        raise ConnectionAbortedError

    with api.client(Scope.SUBMIT) as client, pytest.raises(ConnectionAbortedError):
        client.post("/v1/models", content=half(), headers=OCTETS)  # type: ignore[arg-type]
    with api.client(Scope.SUBMIT) as client:
        assert client.get("/v1/models").json() == []

    assert api.rows("models", "blobs") == {"models": 0, "blobs": 0}


def test_without_the_bucket_nothing_is_kept_and_the_answer_is_try_again(
    serve: Callable[..., Served], farm: Farm, s3: dict[str, str]
) -> None:
    nowhere = s3 | {"s3_endpoint": "http://127.0.0.1:9", "database_url": "x", "valkey_url": "x"}
    away = S3Objects.from_settings(StorageSettings.model_validate(nowhere))
    api = serve(farm=dataclasses.replace(farm, objects=away))

    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/models", content=GOOD, headers=OCTETS)

    refused(api, answer, 503, "bucket_away")
    assert answer.headers["retry-after"] == "5"


def test_a_model_that_takes_too_much_to_read_is_refused_and_leaves_nothing(
    serve: Callable[..., Served],
) -> None:
    """The process that read it ends; the one that answers does not notice."""
    api = serve(reader_memory_bytes=4 << 20)
    crowded = crowded_model(60_000)

    with api.client(Scope.SUBMIT) as client:
        refused = client.post("/v1/models", content=crowded, headers=OCTETS)
        taken = client.post("/v1/models", content=onnx_model(), headers=OCTETS)

    assert (refused.status_code, refused.json()["code"]) == (422, "model_too_complex")
    assert "4194304 bytes of memory" in refused.json()["why"]
    assert taken.status_code == 201
    assert api.left() == []
