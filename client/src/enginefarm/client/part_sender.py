"""Send the parts of an upload: several at once, each again until it is there.

A part goes straight to the bucket; where the bucket cannot be reached from here, through the farm.
The access key goes to the farm alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from enginefarm.client.uploads import Uploads
from enginefarm.counted import counted
from enginefarm.digest import digest_of
from enginefarm.errors import FarmError, InvalidModel, Unavailable
from enginefarm.upload import AskedPart, PartSlot, UploadView

CONNECTIONS = 4
_TRIES = 6
_CHUNK = 1 << 18
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 10.0


class _StoppedError(Exception):
    """Another part has failed, or somebody has pressed Ctrl-C."""


@dataclass(frozen=True)
class _Part:
    file: int
    number: int
    start: int
    size: int


@dataclass
class PartSender:
    """Sends what is missing of one upload."""

    uploads: Uploads
    bucket: httpx.Client
    """Connections without the access key."""
    paths: list[Path]
    sent: Callable[[int], None]
    """Called with how many bytes more are there; fewer than none when a part is sent again."""
    connections: int = CONNECTIONS
    _stop: threading.Event = field(default_factory=threading.Event)
    _through_farm: bool = False

    def send(self, upload: UploadView) -> None:
        """Send every part that is not there.

        Raises:
            FarmError: the farm refuses it; Unavailable if a part did not get through.
        """
        with ThreadPoolExecutor(self.connections) as pool:
            try:
                going = [pool.submit(self._send, upload, part) for part in missing(upload)]
                done, _ = wait(going, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
            except BaseException:
                # Also for Ctrl-C: what is on its way ends at its next piece.
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _send(self, upload: UploadView, part: _Part) -> None:
        """Send one part, again and again with longer pauses."""
        for attempt in range(_TRIES):
            if self._stop.is_set():
                raise _StoppedError
            try:
                self._once(upload, part)
            except (Unavailable, httpx.TransportError) as error:
                if attempt == _TRIES - 1:
                    raise _not_through(part, error) from error
                if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    self._through_farm = True
                self._stop.wait(min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S))
            else:
                return

    def _once(self, upload: UploadView, part: _Part) -> None:
        data = _read(self.paths[part.file], part)
        asked = AskedPart(file=part.file, number=part.number, digest=digest_of(data))
        slot = None if self._through_farm else self.uploads.slot(upload.id, asked)
        if slot is None or slot.url is None:
            self.uploads.put(upload.id, asked, data)
            self.sent(len(data))
        else:
            self._put(slot, slot.url, data)

    def _put(self, slot: PartSlot, url: str, data: bytes) -> None:
        counted = 0

        def pieces() -> Iterator[bytes]:
            nonlocal counted
            for at in range(0, len(data), _CHUNK):
                if self._stop.is_set():
                    raise _StoppedError
                piece = data[at : at + _CHUNK]
                yield piece
                counted += len(piece)
                self.sent(len(piece))

        good = False
        try:
            answer = self.bucket.put(url, headers=slot.headers, content=pieces())
            good = answer.is_success
        finally:
            if not good:
                self.sent(-counted)
        if not good:
            # An URL that has ended, bytes that changed on the way, a bucket that is busy.
            raise Unavailable(f"The bucket answered {answer.status_code}.", code="bucket_away")


def missing(upload: UploadView) -> list[_Part]:
    """Return the parts that are not there."""
    return [
        _Part(
            file=at,
            number=number,
            start=(number - 1) * file.part_bytes,
            size=min(file.part_bytes, file.size - (number - 1) * file.part_bytes),
        )
        for at, file in enumerate(upload.files)
        if not file.present
        for number in sorted(set(range(1, file.part_count + 1)) - set(file.received))
    ]


def _read(path: Path, part: _Part) -> bytes:
    with path.open("rb") as stream:
        stream.seek(part.start)
        data = stream.read(part.size)
    if len(data) < part.size:
        raise InvalidModel(
            f"{path} has become shorter while it was sent.",
            code="model_truncated",
            why=f"Part {part.number} ends after {len(data)} of {counted(part.size, 'byte')}.",
            fix="Send it again when nothing writes to it any more.",
        )
    return data


def _not_through(part: _Part, error: Exception) -> FarmError:
    return Unavailable(
        f"Part {part.number} of the upload did not get through.",
        code="connection_lost",
        why=f"{(str(error) or type(error).__name__).rstrip('.')}, {_TRIES} times.",
        fix="Repeat the command: it goes on where it stopped.",
    )
