"""Files in and out of a node, by presigned URLs: every byte in is hashed, every byte out was.

A file that arrives wrong is fetched again; one that stays wrong fails the attempt as the farm's. A
bucket that does not answer, or answers with a fault of its own, is ``bucket_away``: the farm holds
that against nobody and lets the job wait. Whoever has a reason to stop does not wait for a bucket
that is silent: its connections are broken off.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from enginefarm.digest import digest_of_file
from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from tasks.messages import BUCKET_AWAY, INPUT_UNAVAILABLE, InputFile, OutputFile, UploadSlot
from workers.childjob import ChildOutput

CHUNK = 1 << 20
TRIES = 4
FIRST_DELAY_S = 0.3
TIMEOUT = httpx.Timeout(60.0, connect=5.0)
LOOK_S = 0.1
ALREADY_THERE = 412
EXPIRED = 403
TOO_MANY = 429
SERVER_ERROR = 500

_ANSWERS = "the bucket answers"
_DENIED = f"{_ANSWERS} HTTP 403"
Stop = Callable[[], str | None]


class TransferStopped(Exception):
    """The job was stopped while a file was on its way."""


class SlotExpired(Exception):
    """A presigned URL is no longer good."""


class _Away(Exception):
    """The bucket answers with a fault of its own."""


@cache
def _certificates() -> ssl.SSLContext:
    """Return whom to trust, read once: each job has a client of its own."""
    return httpx.create_ssl_context(trust_env=False)


@contextmanager
def make_client(stop: Stop) -> Iterator[httpx.Client]:
    """Give a client for presigned URLs, without credential; it waits only until ``stop`` speaks."""
    lines: list[Any] = []

    def follow(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            lines.append(info["return_value"].get_extra_info("socket"))

    def trace(request: httpx.Request) -> None:
        request.extensions["trace"] = follow

    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_S):
            if stop() is not None:
                for line in lines:
                    with suppress(OSError):  # closed by now
                        line.shutdown(socket.SHUT_RDWR)

    watcher = threading.Thread(target=watch, name="transfer-watch", daemon=True)
    watcher.start()
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [trace]}
    try:
        with httpx.Client(
            timeout=TIMEOUT, trust_env=False, event_hooks=hooks, verify=_certificates()
        ) as client:
            yield client
    finally:
        ended.set()
        watcher.join()


def download(client: httpx.Client, item: InputFile, folder: Path, stop: Stop) -> Path:
    """Fetch an input into ``folder`` and return its path.

    Raises:
        JobFailed: it does not come, or not as promised (code ``input_unavailable``), or the
            bucket is away (``bucket_away``).
        TransferStopped: ``stop`` gave a reason.
    """
    goal = folder / item.name
    part = folder / f"{item.name}.part"
    said, away = "", False
    for attempt in range(TRIES):
        if attempt:
            time.sleep(FIRST_DELAY_S * 2**attempt)
        _obey(stop)
        try:
            said, away = _fetch(client, item, part, stop), False
        except (httpx.TransportError, _Away) as error:
            said, away = f"{type(error).__name__}: {error}", True
        if not said:
            part.replace(goal)
            return goal
    _obey(stop)
    raise JobFailed(
        f"The input {item.name} could not be fetched.",
        blame=Blame.FARM,
        code=BUCKET_AWAY if away else INPUT_UNAVAILABLE,
        why=f"{said}.",
        fix="Look at the bucket and at the path between it and the node.",
    )


def is_spoilt(error: JobFailed) -> bool:
    """Tell whether a file that did not come is gone or damaged, and not its address.

    A bucket says the same of an address that has expired and of one that it does not like.
    """
    return error.code == INPUT_UNAVAILABLE and _DENIED not in error.why


def _fetch(client: httpx.Client, item: InputFile, part: Path, stop: Stop) -> str:
    """Return what was wrong, or nothing."""
    hasher, size = hashlib.sha256(), 0
    with client.stream("GET", item.url) as response, part.open("wb") as out:
        if _is_away(response):
            raise _Away(f"HTTP {response.status_code}")
        if not response.is_success:
            return f"{_ANSWERS} HTTP {response.status_code}"
        for chunk in response.iter_bytes(CHUNK):
            _obey(stop)
            hasher.update(chunk)
            size += len(chunk)
            if size > item.size:
                return f"it is longer than the {item.size} bytes promised"
            out.write(chunk)
    if size != item.size:
        return f"it has {size} bytes of {item.size}"
    found = f"sha256:{hasher.hexdigest()}"
    return "" if found == item.digest else f"its digest is {found}, promised was {item.digest}"


def describe(output: ChildOutput) -> OutputFile:
    """Return an output with its digest and size."""
    return OutputFile(
        role=output.role,
        name=output.name,
        digest=digest_of_file(output.path),
        size=output.path.stat().st_size,
        media_type=output.media_type,
    )


def upload(client: httpx.Client, slot: UploadSlot, path: Path, stop: Stop) -> None:
    """Put a file where its slot says, unless the farm has it already.

    Raises:
        SlotExpired: the URL is no longer good.
        JobFailed: the bucket does not take it (code ``output_refused``) or is away
            (``bucket_away``).
        TransferStopped: ``stop`` gave a reason.
    """
    if slot.url is None:
        return
    said, away = "", True
    for attempt in range(TRIES):
        if attempt:
            time.sleep(FIRST_DELAY_S * 2**attempt)
        _obey(stop)
        try:
            response = _put(client, slot.url, slot.headers, path, stop)
        except httpx.TransportError as error:
            said = f"{type(error).__name__}: {error}"
            continue
        if response.is_success or response.status_code == ALREADY_THERE:
            return
        if response.status_code == EXPIRED:
            raise SlotExpired
        said = f"HTTP {response.status_code}: {response.text[:200]}"
        if not _is_away(response):
            away = False
            break
    _obey(stop)
    raise JobFailed(
        f"The output {path.name} could not be stored.",
        blame=Blame.FARM,
        code=BUCKET_AWAY if away else "output_refused",
        why=f"The bucket says {said}.",
        fix="Look at the bucket and at the path between it and the node.",
    )


def _put(
    client: httpx.Client, url: str, headers: dict[str, str], path: Path, stop: Stop
) -> httpx.Response:
    length = {"Content-Length": str(path.stat().st_size)}
    with path.open("rb") as stream:

        def chunks() -> Iterator[bytes]:
            while chunk := stream.read(CHUNK):
                _obey(stop)
                yield chunk

        return client.put(url, content=chunks(), headers=length | headers)


def _is_away(response: httpx.Response) -> bool:
    return response.status_code >= SERVER_ERROR or response.status_code == TOO_MANY


def _obey(stop: Stop) -> None:
    if stop() is not None:
        raise TransferStopped
