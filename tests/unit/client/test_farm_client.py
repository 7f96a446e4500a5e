"""The client over real HTTP: errors come back as themselves, a watch survives a broken line."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm import errors
from enginefarm.client import FarmClient, read_local_model
from enginefarm.client.events import Watch, frames
from enginefarm.client.transport import Transport
from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import FarmError, InvalidModel, InvalidRequest, NotFound, Unavailable
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, JobState, Stage
from tests.unit.client.support.server import Answer, Handler, LoopbackFarm
from tests.unit.client.support.views import CPU, MODEL, build, event, job, published


@pytest.fixture
def client(loopback: LoopbackFarm) -> Iterator[FarmClient]:
    with FarmClient(loopback.url, "ef_k_secret") as client:
        yield client


FAMILIES = [
    ("invalid-request", errors.InvalidRequest, 400),
    ("invalid-model", errors.InvalidModel, 422),
    ("invalid-dataset", errors.InvalidDataset, 422),
    ("invalid-profile", errors.InvalidProfile, 422),
    ("too-large", errors.TooLarge, 413),
    ("not-served", errors.NotServed, 422),
    ("unauthenticated", errors.Unauthenticated, 401),
    ("forbidden", errors.Forbidden, 403),
    ("not-found", errors.NotFound, 404),
    ("conflict", errors.Conflict, 409),
    ("job-failed", errors.JobFailed, 422),
    ("verification-failed", errors.VerificationFailed, 422),
    ("unavailable", errors.Unavailable, 503),
    ("farm-error", errors.FarmError, 500),
]


@pytest.mark.parametrize(("kind", "family", "status"), FAMILIES)
def test_a_problem_comes_back_as_the_error_it_was(
    kind: str,
    family: type[FarmError],
    status: int,
    client: FarmClient,
    loopback: LoopbackFarm,
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.problem(
        status, kind, "some_code", context={"field": "x"}
    )

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()

    error = caught.value
    assert type(error) is family
    assert (error.message, error.why, error.fix) == ("What happened.", "Why it did.", "What to do.")
    assert error.code == "some_code"
    assert error.context == {"field": "x"}


@pytest.mark.parametrize(
    ("status", "family"), [(404, NotFound), (502, Unavailable), (500, FarmError)]
)
def test_an_answer_that_is_no_problem_document_still_has_a_family(
    status: int, family: type[FarmError], client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(status, b"<html>proxy</html>")

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()
    assert type(caught.value) is family


def test_an_address_where_nobody_listens_says_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with FarmClient(url) as client, pytest.raises(Unavailable) as caught:
        client.fleet.nodes()
    assert caught.value.code == "farm_unreachable"
    assert url in caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize("url", ["", "farm", "ftp://farm", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        FarmClient(url)
    assert caught.value.code == "invalid_url"


def test_an_answer_of_another_shape_is_told_as_such(
    client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(200, b'[{"id": 5}]')

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()
    assert caught.value.code == "unexpected_answer"


def test_a_redirect_of_anything_but_a_download_is_not_followed(
    client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(
        307, b"", {"Location": "http://127.0.0.1:9/elsewhere"}
    )

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()
    assert caught.value.code == "unexpected_redirect"


def test_the_key_goes_with_every_request(client: FarmClient, loopback: LoopbackFarm) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(200, b"[]")

    client.fleet.nodes()

    assert loopback.seen[0].headers["Authorization"] == "Bearer ef_k_secret"


def test_submitting_twice_after_a_broken_answer_asks_with_the_same_key(
    client: FarmClient, loopback: LoopbackFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginefarm.client.builds.time.sleep", lambda _: None)
    done = build(BuildState.PENDING, [], [published()]).model_dump_json().encode()
    answers = iter([10, None])

    def answer(handler: Handler) -> None:
        handler.body()
        handler.reply(201, done, sent=next(answers))

    loopback.routes["/v1/builds"] = answer

    view, existed = client.builds.submit(BuildSpec(model=MODEL, targets=[CPU]))

    assert view.id == "bld_1"
    assert not existed
    keys = [seen.headers["Idempotency-Key"] for seen in loopback.seen]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_filters_are_sent_only_when_given(client: FarmClient, loopback: LoopbackFarm) -> None:
    loopback.routes["/v1/builds"] = lambda handler: handler.reply(
        200, b'{"items":[],"next_cursor":null}'
    )

    client.builds.page()
    client.builds.page(states=[BuildState.FAILED], labels={"team": "vision"}, target="a@b")

    assert loopback.seen[0].path == "/v1/builds?limit=50"
    params = dict(httpx.URL(loopback.url + loopback.seen[1].path).params)
    assert params == {"limit": "50", "state": "failed", "target": "a@b", "label": "team=vision"}


def test_an_id_with_odd_characters_cannot_reach_another_path(
    client: FarmClient, loopback: LoopbackFarm
) -> None:
    with pytest.raises(NotFound):
        client.builds.get("../trust?x=")
    assert loopback.seen[0].path == "/v1/builds/..%2Ftrust%3Fx%3D"


# Watching


def _stream(*parts: bytes, cut: bool = False) -> Answer:
    """Return an answer that streams events, and breaks off if ``cut``."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        if not cut:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return answer


def _frame(number: int, kind: str, data: dict[str, Any]) -> bytes:
    view = event(number, kind, data)
    return f"id: {view.id}\nevent: {kind}\ndata: {view.model_dump_json()}\n\n".encode()


def _watch(loopback: LoopbackFarm, answers: list[Answer], **options: Any) -> list[str]:  # noqa: ANN401 - fields of Watch
    rest = iter(answers)

    def answer(handler: Handler) -> None:
        next(rest)(handler)

    loopback.routes["/v1/builds/bld_1/events"] = answer
    transport = Transport(loopback.url, None)
    try:
        watch = Watch(transport, "bld_1", sleep=lambda _: None, **options)
        return [f"{each.id} {each.kind}" for each in watch.events()]
    finally:
        transport.close()


def test_a_watch_that_breaks_goes_on_after_the_last_event(loopback: LoopbackFarm) -> None:
    seen = _watch(
        loopback,
        [
            _stream(
                b"retry: 2000\n\n",
                _frame(1, "snapshot", {"state": "running"}),
                _frame(2, "job", {"state": "running"}),
                _frame(3, "job", {"state": "succeeded"})[:-20],
                cut=True,
            ),
            _stream(b": alive\n\n", _frame(3, "job", {"state": "succeeded"})),
            _stream(_frame(4, "build", {"state": "succeeded"}), _frame(5, "job", {})),
        ],
    )

    assert seen == ["1.0-0 snapshot", "2.0-0 job", "3.0-0 job", "4.0-0 build"]
    assert [request.headers.get("Last-Event-ID") for request in loopback.seen] == [
        None,
        "2.0-0",
        "3.0-0",
    ]


def test_a_build_that_is_over_already_is_told_by_its_snapshot(loopback: LoopbackFarm) -> None:
    seen = _watch(loopback, [_stream(_frame(9, "snapshot", {"state": "failed"}))])

    assert seen == ["9.0-0 snapshot"]


def test_a_watch_that_has_seen_the_last_event_ends(loopback: LoopbackFarm) -> None:
    assert _watch(loopback, [lambda handler: handler.reply(204, b"")], last="9.0-0") == []


def test_a_watch_gives_up_when_the_farm_stays_away(loopback: LoopbackFarm) -> None:
    times = iter(range(0, 10_000, 50))

    with pytest.raises(Unavailable):
        _watch(
            loopback,
            [lambda handler: handler.problem(503, "unavailable", "database_away")] * 9,
            patience_s=100.0,
            clock=lambda: float(next(times)),
        )
    assert 2 <= len(loopback.seen) <= 4


def test_a_watch_of_an_unknown_build_is_not_tried_again(loopback: LoopbackFarm) -> None:
    with pytest.raises(NotFound):
        _watch(loopback, [lambda handler: handler.problem(404, "not-found", "unknown_build")])
    assert len(loopback.seen) == 1


def test_frames_keep_their_id_and_skip_comments() -> None:
    lines = [
        "retry: 5",
        "",
        ": alive",
        "",
        "id: 1",
        "data: a",
        "data: b",
        "",
        "data:c",
        "",
        "data: d",
    ]

    assert [(frame.id, frame.data) for frame in frames(lines)] == [("1", "a\nb"), ("1", "c")]


# Models


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
    (tmp_path / "big.npz").write_bytes(bytes(64 << 20))

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


def test_jobs_of_a_build_are_read(client: FarmClient, loopback: LoopbackFarm) -> None:
    view = build(BuildState.RUNNING, [job(Stage.COMPILE, JobState.RUNNING)], [published()])
    loopback.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(
        200, view.model_dump_json().encode()
    )

    assert client.builds.get("bld_1") == view
