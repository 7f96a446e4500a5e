"""Files in and out by presigned URL: wrong bytes never pass, and a passing fault is tried again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from tasks.messages import InputFile, UploadSlot
from workers import transfer

BYTES = b"weights" * 1000
Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "FIRST_DELAY_S", 0)


def client(handler: Handler) -> httpx.Client:
    """Return a client whose requests ``handler`` answers."""
    return httpx.Client(transport=httpx.MockTransport(handler))


def item(data: bytes = BYTES) -> InputFile:
    """Return an input with these bytes."""
    return InputFile(
        role="model",
        name="model.onnx",
        digest=digest_of(data),
        size=len(data),
        url="http://bucket/blob",
    )


def go_on() -> str | None:
    """Never stop."""
    return None


def test_an_input_arrives_under_its_name(tmp_path: Path) -> None:
    bucket = client(lambda _request: httpx.Response(200, content=BYTES))
    path = transfer.download(bucket, item(), tmp_path, go_on)
    assert path == tmp_path / "model.onnx"
    assert path.read_bytes() == BYTES
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (BYTES[:-1], "has 6999 bytes of 7000"),
        (BYTES + b"!", "longer than the 7000 bytes"),
        (b"W" + BYTES[1:], "its digest is"),
    ],
)
def test_wrong_bytes_never_pass(tmp_path: Path, content: bytes, why: str) -> None:
    bucket = client(lambda _request: httpx.Response(200, content=content))
    with pytest.raises(JobFailed) as caught:
        transfer.download(bucket, item(), tmp_path, go_on)
    assert (caught.value.code, caught.value.blame) == ("input_unavailable", Blame.FARM)
    assert why in caught.value.why
    assert not (tmp_path / "model.onnx").exists()


def test_a_passing_fault_is_tried_again(tmp_path: Path) -> None:
    answers = iter([503, 200])

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(next(answers), content=BYTES)

    assert transfer.download(client(answer), item(), tmp_path, go_on).exists()


def test_a_bucket_that_is_away_is_the_farms_fault(tmp_path: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(JobFailed) as caught:
        transfer.download(client(refuse), item(), tmp_path, go_on)
    assert (caught.value.code, caught.value.blame) == ("bucket_away", Blame.FARM)


@pytest.mark.parametrize(
    ("status", "code"), [(404, "input_unavailable"), (500, "bucket_away"), (503, "bucket_away")]
)
def test_a_bucket_with_a_fault_of_its_own_is_told_from_one_without_the_file(
    tmp_path: Path, status: int, code: str
) -> None:
    with pytest.raises(JobFailed) as caught:
        transfer.download(client(lambda _request: httpx.Response(status)), item(), tmp_path, go_on)
    assert caught.value.code == code


def test_a_stop_is_obeyed_on_the_way(tmp_path: Path) -> None:
    bucket = client(lambda _request: httpx.Response(200, content=BYTES))
    with pytest.raises(transfer.TransferStopped):
        transfer.download(bucket, item(), tmp_path, lambda: "cancelled")


def output(tmp_path: Path) -> Path:
    """Return an output on disk."""
    path = tmp_path / "model.plan"
    path.write_bytes(BYTES)
    return path


def slot(url: str | None = "http://bucket/blob") -> UploadSlot:
    """Return a slot with a pinned header."""
    return UploadSlot(digest=digest_of(BYTES), url=url, headers={"x-amz-checksum-sha256": "abc"})


def test_an_output_goes_out_with_its_length_and_the_slots_headers(tmp_path: Path) -> None:
    seen: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        request.read()
        seen.append(request)
        return httpx.Response(200)

    transfer.upload(client(take), slot(), output(tmp_path), go_on)
    assert seen[0].content == BYTES
    assert seen[0].headers["Content-Length"] == "7000"
    assert seen[0].headers["x-amz-checksum-sha256"] == "abc"
    assert "Transfer-Encoding" not in seen[0].headers


def test_what_the_farm_has_already_is_not_sent(tmp_path: Path) -> None:
    seen: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    transfer.upload(client(take), slot(None), output(tmp_path), go_on)
    assert seen == []


def test_bytes_that_are_there_already_are_fine_and_not_sent_again(tmp_path: Path) -> None:
    seen: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(412)

    transfer.upload(client(refuse), slot(), output(tmp_path), go_on)
    assert len(seen) == 1


def test_an_expired_address_asks_for_a_new_one(tmp_path: Path) -> None:
    with pytest.raises(transfer.SlotExpired):
        transfer.upload(
            client(lambda _request: httpx.Response(403)), slot(), output(tmp_path), go_on
        )


@pytest.mark.parametrize(
    ("status", "tries", "code"),
    [(400, 1, "output_refused"), (500, transfer.TRIES, "bucket_away")],
)
def test_a_refusal_is_final_and_a_fault_is_tried_again(
    tmp_path: Path, status: int, tries: int, code: str
) -> None:
    seen: list[int] = []

    def answer(_request: httpx.Request) -> httpx.Response:
        seen.append(1)
        return httpx.Response(status, text="no")

    with pytest.raises(JobFailed) as caught:
        transfer.upload(client(answer), slot(), output(tmp_path), go_on)
    assert caught.value.code == code
    assert len(seen) == tries


def test_a_bucket_that_is_silent_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    connected = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ends: list[socket.socket] = []

        def listen() -> None:
            ends.append(silent.accept()[0])
            connected.set()

        listener = threading.Thread(target=listen)
        listener.start()

        def stop() -> str | None:
            return "cancelled" if connected.is_set() else None

        waiting = item().model_copy(update={"url": f"http://127.0.0.1:{port}/blob"})
        with transfer.make_client(stop) as real, pytest.raises(transfer.TransferStopped):
            transfer.download(real, waiting, tmp_path, stop)
        listener.join()
        ends[0].close()


def test_a_bucket_that_is_asked_too_often_is_away_for_a_while(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as caught:
        transfer.upload(
            client(lambda _request: httpx.Response(429)), slot(), output(tmp_path), go_on
        )
    assert caught.value.code == "bucket_away"
