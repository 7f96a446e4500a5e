"""Models are sent once, streamed, whole, and never with a file from outside their folder."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm import errors
from enginefarm.client import FarmClient, read_local_model
from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import InvalidModel
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import MODEL


def _save(path: Path, *, external: str | None = None) -> bytes:
    weights = numpy_helper.from_array(np.full((3, 2), 0.5, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save_model(
        model,
        path,
        save_as_external_data=external is not None,
        location=external,
        size_threshold=0,
    )
    return path.read_bytes()


def _model_json(digest: str) -> bytes:
    view = {
        "digest": digest,
        "name": "small",
        "size": 1,
        "files": [],
        "inputs": [],
        "outputs": [],
        "opsets": {"": 17},
        "node_count": 1,
        "created_at": "2026-11-30T12:00:00Z",
    }
    return json.dumps(view).encode()


def test_a_model_the_farm_has_is_not_sent_again(
    client: FarmClient, loopback: LoopbackFarm, tmp_path: Path
) -> None:
    data = _save(tmp_path / "small.onnx")
    listing = [{"digest": digest_of(data), "name": "model.onnx", "size": len(data)}]
    digest = digest_of(canonical_json({"files": listing}))
    loopback.routes[f"/v1/models/{digest}"] = lambda handler: handler.reply(
        200, _model_json(digest)
    )

    view = client.models.upload(tmp_path / "small.onnx")

    assert view.existed
    assert [seen.method for seen in loopback.seen] == ["GET"]


def test_a_model_is_streamed_with_its_external_data_and_counted(
    client: FarmClient, loopback: LoopbackFarm, tmp_path: Path
) -> None:
    data = _save(tmp_path / "small.onnx", external="weights.bin")
    weights = (tmp_path / "weights.bin").read_bytes()
    bodies: list[bytes] = []

    def answer(handler: Handler) -> None:
        bodies.append(handler.body())
        handler.reply(201, _model_json(MODEL))

    loopback.routes["/v1/models"] = answer
    counted: list[tuple[int, int]] = []

    client.models.upload(
        tmp_path / "small.onnx", sent=lambda done, total: counted.append((done, total))
    )

    total = len(data) + len(weights)
    assert counted[-1] == (total, total)
    assert b'filename="model.onnx"' in bodies[0]
    assert b'filename="weights.bin"' in bodies[0]
    assert data in bodies[0]
    assert weights in bodies[0]
    assert digest_of(data).encode() in bodies[0]
    assert int(loopback.seen[-1].headers["Content-Length"]) == len(bodies[0])


def test_an_upload_that_is_refused_before_its_end_tells_the_farms_reason(
    client: FarmClient, loopback: LoopbackFarm, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive:
        archive.writestr("x.npy", bytes(64 << 20))

    def refuse(handler: Handler) -> None:
        handler.problem(413, "too-large", "body_too_large")
        handler.wfile.flush()
        # The rest of the body is taken off the wire, as a server does before it closes.
        handler.body()

    loopback.routes["/v1/datasets"] = refuse

    with pytest.raises(errors.TooLarge):
        client.datasets.upload(tmp_path / "big.npz")


def test_external_data_that_is_missing_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    _save(tmp_path / "small.onnx", external="weights.bin")
    (tmp_path / "weights.bin").unlink()

    with pytest.raises(InvalidModel, match=r"weights\.bin") as caught:
        read_local_model(tmp_path / "small.onnx")
    assert caught.value.code == "external_data_missing"


def test_external_data_that_is_a_link_out_of_the_folder_is_not_sent(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    _save(folder / "small.onnx", external="weights.bin")
    (folder / "weights.bin").rename(tmp_path / "secret")
    (folder / "weights.bin").symlink_to(tmp_path / "secret")

    with pytest.raises(InvalidModel) as caught:
        read_local_model(folder / "small.onnx")
    assert caught.value.code == "external_path_escapes"


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret", "sub/weights.bin"])
def test_external_data_elsewhere_is_not_sent(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "model"
    folder.mkdir()
    _save(folder / "small.onnx", external="weights.bin")
    model = onnx.load_model(folder / "small.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    (folder / "small.onnx").write_bytes(model.SerializeToString())

    with pytest.raises(InvalidModel):
        read_local_model(folder / "small.onnx")


def test_a_missing_model_file_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel) as caught:
        read_local_model(tmp_path / "nothing.onnx")
    assert caught.value.code == "model_missing"
