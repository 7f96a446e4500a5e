"""Take an upload off the wire: streamed to a folder that is gone afterwards, hashed on the way.

A file never gets the name that the sender gave it; names are checked, kept as data, and refused if
they could mean another folder. Writing happens in a worker thread, a mebibyte at a time.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

import anyio
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool

from enginefarm.errors import InvalidRequest, Unavailable
from tasks.names import require_plain

RAW = "application/octet-stream"
_BATCH = 1 << 20
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MAX_FIELD = 4096
_MAX_FIELDS = 16


@dataclass
class ReceivedFile:
    """One file as it came: the name its sender gave, and where its bytes are."""

    name: str
    path: Path
    size: int = 0
    digest: str = ""


@dataclass
class Upload:
    """What a request carried."""

    files: list[ReceivedFile] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def received(
    request: Request, *, spool: Path | None, raw_name: str, max_files: int
) -> AsyncIterator[Upload]:
    """Receive a request's files, as multipart form or as the bare body.

    Raises:
        InvalidRequest: codes ``bad_multipart``, ``bad_file_name``, ``empty_upload``.
        TooLarge: the body is above its path's limit.
        Unavailable: code ``spool_full``.
    """
    folder = await run_in_threadpool(tempfile.TemporaryDirectory, prefix="upload-", dir=spool)
    try:
        sink = _sink(request, Path(folder.name), raw_name, max_files)
        try:
            await _pour(request, sink)
        except OSError as error:
            raise _no_room(error) from error
        finally:
            with suppress(OSError):  # what is still buffered does not fit, either
                sink.close()
        if not sink.upload.files:
            raise _empty()
        yield sink.upload
    finally:
        # Also when the server is being stopped, nothing stays behind.
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(folder.cleanup)


class _Sink(Protocol):
    upload: Upload

    def write(self, data: bytes) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


def _sink(request: Request, folder: Path, raw_name: str, max_files: int) -> _Sink:
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data":
        return _RawSink(folder, raw_name)
    if b"boundary" not in options:
        raise _bad_multipart("The Content-Type names no boundary.")
    return _FormSink(folder, options[b"boundary"], max_files)


async def _pour(request: Request, sink: _Sink) -> None:
    batch = bytearray()
    async for chunk in request.stream():
        batch += chunk
        if len(batch) >= _BATCH:
            await run_in_threadpool(sink.write, bytes(batch))
            batch.clear()
    await run_in_threadpool(sink.write, bytes(batch))
    await run_in_threadpool(sink.finish)


class _File:
    """A file being received."""

    def __init__(self, received_file: ReceivedFile) -> None:
        self.received = received_file
        self._hash = hashlib.sha256()
        self._stream: IO[bytes] = received_file.path.open("xb")

    def write(self, data: bytes) -> None:
        self._stream.write(data)
        self._hash.update(data)
        self.received.size += len(data)

    def close(self) -> None:
        self._stream.close()
        self.received.digest = f"sha256:{self._hash.hexdigest()}"


class _RawSink:
    def __init__(self, folder: Path, name: str) -> None:
        self.upload = Upload([ReceivedFile(name, folder / "0")])
        self._file = _File(self.upload.files[0])

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        """Nothing is left to check: the server refuses a body shorter than it was declared."""

    def close(self) -> None:
        self._file.close()


class _FormSink:
    """A multipart body: ``file`` parts become files, other parts short texts."""

    def __init__(self, folder: Path, boundary: bytes, max_files: int) -> None:
        self.upload = Upload()
        self._folder = folder
        self._max_files = max_files
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._file: _File | None = None
        self._field: tuple[str, bytearray] | None = None
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begin,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _bad_multipart(f"{error}.") from error

    def write(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _bad_multipart(f"{error}.") from error

    def finish(self) -> None:
        if not self._ended:
            raise _bad_multipart("The body ends before its last boundary.")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _part_begin(self) -> None:
        self._disposition = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def _header_end(self) -> None:
        name, value = self._header
        if name.lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _headers_finished(self) -> None:
        name, file_name = _disposition(self._disposition)
        if file_name is not None:
            self._open(require_plain(file_name, "a file name"))
        elif name == "file":
            raise _bad_multipart("A part named 'file' has no file name.")
        elif len(self.upload.fields) >= _MAX_FIELDS:
            raise _bad_multipart(f"There are more than {_MAX_FIELDS} fields.")
        else:
            self._field = (name, bytearray())

    def _open(self, name: str) -> None:
        files = self.upload.files
        if len(files) >= self._max_files:
            raise _bad_multipart(f"There are more than {self._max_files} files.")
        if any(known.name == name for known in files):
            raise _bad_multipart(f"Two files are called {name!r}.")
        files.append(ReceivedFile(name, self._folder / str(len(files))))
        self._file = _File(files[-1])

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
        elif self._field is not None:
            self._field[1].extend(data[start:end])
            if len(self._field[1]) > _MAX_FIELD:
                raise _bad_multipart(f"The field {self._field[0]!r} is too long.")

    def _part_end(self) -> None:
        if self._file is not None:
            self._file.close()
        elif self._field is not None:
            name, value = self._field
            self.upload.fields[name] = value.decode("utf-8", "replace").strip()
        self._file = self._field = None

    def _end(self) -> None:
        self._ended = True


def _disposition(header: bytes) -> tuple[str, str | None]:
    # The options come back as the bytes they were: UTF-8, as browsers and httpx send them.
    _, options = parse_options_header(header)
    if b"name" not in options:
        raise _bad_multipart("A part has no name.")
    file_name = options.get(b"filename")
    return (
        options[b"name"].decode("utf-8", "replace")[:80],
        None if file_name is None else file_name.decode("utf-8", "replace"),
    )


def _bad_multipart(why: str) -> InvalidRequest:
    return InvalidRequest(
        "The multipart body cannot be used.",
        code="bad_multipart",
        why=why,
        fix="Send each file as a part named 'file' with a file name: curl -F file=@model.onnx.",
    )


def _no_room(error: OSError) -> Exception:
    if error.errno not in _NO_ROOM:
        return error
    return Unavailable(
        "The farm has no room to take the upload in.",
        code="spool_full",
        why=f"{os.strerror(error.errno)}.",
        fix="Try again later; the operator must free the disk of ENGINEFARM_SPOOL_DIR.",
    )


def _empty() -> InvalidRequest:
    return InvalidRequest(
        "The request carries no file.",
        code="empty_upload",
        fix="Send the bytes as the body, or as a multipart part named 'file'.",
    )
