"""Models that people have had trouble with elsewhere, each sent to the farm as it is.

What is wrong with a file is said when it is sent, with the name of what is wrong in it, before
anything is queued; what is only unusual is taken.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.digest import digest_of
from enginefarm.state import Scope
from tests.integration.api import parts_sent as sent
from tests.integration.api.served import Served
from tests.unit.enginefarm.onnx_made import external_weight, model, value, weight

Files = dict[str, bytes]
OCTETS = {"Content-Type": "application/octet-stream"}
EXTERNAL_BYTES = 8 * 4 * 4


def external(location: str, rows: int = 8) -> bytes:
    """Return ``y = x @ w`` with ``w`` of 4 columns in another file."""
    place = {"location": location, "offset": "0", "length": str(rows * 16)}
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        inputs=[value("x", ("n", rows))],
        outputs=[value("y", ("n", 4))],
        weights=[external_weight(dims=(rows, 4), **place)],
    )


def chain() -> bytes:
    """Return a model most of which are weights."""
    names = ["x", *(f"h{number}" for number in range(5)), "y"]
    return model(
        [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(6)],
        inputs=[value("x", ("n", 64))],
        outputs=[value("y", ("n", 64))],
        weights=[numpy_helper.from_array(np.ones((64, 64), np.float32), f"w{n}") for n in range(6)],
    )


def post(client: httpx.Client, files: Files) -> httpx.Response:
    return client.post("/v1/models", files=[("file", item) for item in files.items()])


def refusal(api: Served, files: Files) -> dict[str, object]:
    """Send a model, see it refused and nothing kept, and return the problem."""
    with api.client(Scope.SUBMIT) as client:
        answer = post(client, files)
    assert answer.status_code == 422, answer.text
    assert api.rows("models", "blobs", "jobs") == {"models": 0, "blobs": 0, "jobs": 0}
    problem: dict[str, object] = answer.json()
    assert problem["fix"]
    return problem


def test_weights_one_folder_up_are_refused_by_tensor_and_place(api: Served) -> None:
    """A loader would open ``../outside.bin``; the farm opens nothing that was not sent."""
    problem = refusal(
        api, {"m.onnx": external("../outside.bin"), "outside.bin": bytes(EXTERNAL_BYTES)}
    )

    assert problem["code"] == "external_path_escapes"
    assert problem["context"] == {"tensor": "w", "location": "../outside.bin"}


def test_weights_that_were_not_sent_are_all_named(api: Served) -> None:
    """People send the ``.onnx`` alone; the list tells them what to add."""
    problem = refusal(api, {"m.onnx": external("weights.bin", 256)})

    assert problem["code"] == "external_data_missing"
    assert problem["context"] == {"missing": ["weights.bin"], "missing_count": 1}


def test_weights_above_what_protobuf_holds_are_declared_like_any(api: Served) -> None:
    """A model of 2.25 GB fits into no message; its ``.onnx`` file has some hundred bytes."""
    rows = 1024 * 550_000 // 4
    main = external("weights.bin", rows)
    size = rows * 16
    body = sent.declaration({"m.onnx": main})
    files = [*body["files"], {"name": "weights.bin", "size": size, "digest": digest_of(b"w")}]  # type: ignore[misc]
    with api.client(Scope.SUBMIT) as client:
        upload = client.post("/v1/uploads", json={"files": files}).json()
        first = client.post(
            "/v1/uploads",
            json={"files": [{"name": "m.onnx", "size": size, "digest": digest_of(b"w")}]},
        )

    assert size > 2 << 30
    assert upload["size"] == size + len(main)
    assert upload["files"][1]["part_count"] == -(-size // upload["files"][1]["part_bytes"])
    assert first.json()["code"] == "model_file_too_large"


def test_a_cut_file_is_told_from_one_that_was_damaged_on_the_way(api: Served) -> None:
    """Bytes that match their digest were cut before they were sent; others on the way."""
    whole = chain()
    cut = whole[: len(whole) * 6 // 10]
    problem = refusal(api, {"m.onnx": cut})
    with api.client(Scope.SUBMIT) as client:
        on_the_way = client.post(
            "/v1/models", files=[("file", ("m.onnx", cut))], data={"digest": digest_of(whole)}
        )

    assert problem["code"] == "model_truncated"
    assert (on_the_way.status_code, on_the_way.json()["code"]) == (400, "digest_mismatch")


def test_a_name_for_two_tensors_is_refused_for_every_target(api: Served) -> None:
    """ONNX Runtime refuses it and another parser takes the last; here neither decides."""
    nodes = [
        helper.make_node("Relu", ["x"], ["t"]),
        helper.make_node("Neg", ["x"], ["t"]),
        helper.make_node("Exp", ["t"], ["y"]),
    ]
    problem = refusal(api, {"m.onnx": model(nodes, weights=[])})

    assert problem["code"] == "invalid_graph"
    assert problem["context"] == {"tensor": "t"}


def test_a_graph_of_nothing_is_refused(api: Served) -> None:
    """A part was cut out of a model with the wrong names; there is nothing to build."""
    problem = refusal(api, {"m.onnx": model([], weights=[])})

    assert problem["code"] == "empty_graph"


def old_export() -> bytes:
    """Return a model of the first years, whose weights are listed as inputs, too."""
    return model(inputs=[value("x"), value("w")], weights=[weight()], opsets={"": 9}, ir_version=3)


def tied() -> bytes:
    """Return a model that has an embedding and, transposed, the same numbers as its head."""
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    return model(
        [
            helper.make_node("Gather", ["emb", "x"], ["e"]),
            helper.make_node("MatMul", ["e", "head"], ["y"]),
        ],
        inputs=[value("x", ("n",), TensorProto.INT64)],
        outputs=[value("y", ("n", 4))],
        weights=[
            numpy_helper.from_array(table, "emb"),
            numpy_helper.from_array(table.T.copy(), "head"),
        ],
    )


@pytest.mark.parametrize(
    "made",
    [old_export, tied, lambda: model(opsets={"": 999})],
    ids=["weights are inputs", "tied weights", "an opset that is too new"],
)
def test_what_is_only_unusual_is_taken_with_the_inputs_that_a_caller_gives(
    api: Served, made: Callable[[], bytes]
) -> None:
    """Whether a backend knows an operator set is for the check of each target to say."""
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/models", content=made(), headers=OCTETS)

    assert answer.status_code == 201, answer.text
    assert [row["name"] for row in answer.json()["inputs"]] == ["x"]
