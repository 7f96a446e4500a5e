"""What arrives on the wire becomes files with checked names, or is refused and leaves nothing."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from api import uploads
from api.uploads import Upload, received
from enginefarm.errors import InvalidRequest, Unavailable
from tasks.names import require_plain

BOUNDARY = "frontier"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def part(name: str, data: bytes, file_name: str | None = None) -> bytes:
    disposition = f'form-data; name="{name}"'
    if file_name is not None:
        disposition += f'; filename="{file_name}"'
    head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n".encode()
    return head + data + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def request_of(body: bytes, content_type: str, piece: int) -> Request:
    pieces = [body[start : start + piece] for start in range(0, len(body), piece)] or [b""]
    messages: list[Message] = [
        {"type": "http.request", "body": data, "more_body": index < len(pieces) - 1}
        for index, data in enumerate(pieces)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/models",
        "headers": [(b"content-type", content_type.encode())],
    }
    return Request(scope, receive)


def take(
    body: bytes, spool: Path, content_type: str = FORM, piece: int = 7, max_files: int = 4
) -> tuple[Upload, list[bytes]]:
    async def run() -> tuple[Upload, list[bytes]]:
        request = request_of(body, content_type, piece)
        async with received(
            request, spool=spool, raw_name="model.onnx", max_files=max_files
        ) as sent:
            return sent, [file.path.read_bytes() for file in sent.files]

    return asyncio.run(run())


@pytest.mark.parametrize("piece", [1, 2, 13, 64, 1 << 20])
def test_a_form_is_the_same_however_the_network_cuts_it(tmp_path: Path, piece: int) -> None:
    weights = bytes(range(256)) * 40
    body = (
        part("file", b"model\r\n--frontie", "modèle.onnx")
        + part("name", b" detector ")
        + part("file", weights, "weights.bin")
        + END
    )

    sent, contents = take(body, tmp_path, piece=piece)

    assert [file.name for file in sent.files] == ["modèle.onnx", "weights.bin"]
    assert contents == [b"model\r\n--frontie", weights]
    assert sent.files[1].size == len(weights)
    assert sent.files[1].digest == f"sha256:{hashlib.sha256(weights).hexdigest()}"
    assert sent.fields == {"name": "detector"}


def test_a_bare_body_is_one_file(tmp_path: Path) -> None:
    sent, contents = take(b"bytes", tmp_path, "application/octet-stream")

    assert [(file.name, file.size) for file in sent.files] == [("model.onnx", 5)]
    assert contents == [b"bytes"]


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".hidden.onnx",
        "-rf.onnx",
        "a/b.onnx",
        "a..b.onnx",
        "a\\\\b.onnx",
        "a:stream.onnx",
        "new\tline.onnx",
        "nul\x00.onnx",
        "right\u202eto-left.onnx",
        "x" * 129,
        "",
    ],
)
def test_a_name_that_could_be_a_path_is_refused_and_nothing_stays(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        take(part("file", b"data", name) + END, tmp_path)

    assert caught.value.code == "bad_file_name"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (part("file", b"data", "a.onnx"), FORM),
        (part("file", b"data", "a.onnx") + END[:-6], FORM),
        (b"not multipart at all", FORM),
        (part("file", b"data") + END, FORM),
        (part("file", b"", "a.onnx") * 2 + END, FORM),
        (part("name", b"x" * 5000) + END, FORM),
        (b"".join(part("file", b"", f"{n}.bin") for n in range(5)) + END, FORM),
        (b"".join(part(f"f{n}", b"") for n in range(17)) + END, FORM),
        (b"--\r\nContent-Disposition: form-data\r\n\r\nx\r\n", "multipart/form-data"),
        (
            f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n".encode() + END,
            FORM,
        ),
        (b"", f"multipart/form-data; boundary={'b' * 300}"),
    ],
    ids=[
        "no end",
        "cut in the last boundary",
        "no form",
        "file without a name",
        "the same name twice",
        "long field",
        "too many files",
        "too many fields",
        "no boundary",
        "part without a name",
        "long boundary",
    ],
)
def test_a_broken_form_is_refused_and_nothing_stays(
    tmp_path: Path, body: bytes, content_type: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        take(body, tmp_path, content_type)

    assert caught.value.code == "bad_multipart"
    assert list(tmp_path.iterdir()) == []


def test_a_form_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as caught:
        take(part("name", b"detector") + END, tmp_path)

    assert caught.value.code == "empty_upload"


def test_nothing_stays_when_the_sender_goes_away(tmp_path: Path) -> None:
    async def stream() -> AsyncIterator[Message]:
        yield {"type": "http.request", "body": part("file", b"half", "a.onnx"), "more_body": True}
        yield {"type": "http.disconnect"}

    async def run() -> None:
        messages = stream()
        scope = {"type": "http", "headers": [(b"content-type", FORM.encode())]}
        request = Request(scope, messages.__anext__)
        async with received(request, spool=tmp_path, raw_name="m", max_files=1):
            pytest.fail("half an upload was handed on")

    with pytest.raises(ClientDisconnect):
        asyncio.run(run())

    assert list(tmp_path.iterdir()) == []


def test_a_name_may_hold_spaces_and_letters_of_any_script() -> None:
    assert require_plain("検出器 v2 (final).onnx", "a name") == "検出器 v2 (final).onnx"


def test_a_full_disk_is_told_as_what_it_is_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: object, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(uploads._File, "write", full)

    with pytest.raises(Unavailable) as refused:
        take(b"weights", tmp_path, content_type=uploads.RAW)

    assert refused.value.code == "spool_full"
    assert list(tmp_path.iterdir()) == []
