"""Send a model in parts, and go on with what a run before has sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from enginefarm.client.local_model import LocalModel
from enginefarm.client.part_sender import PartSender, missing
from enginefarm.client.transport import Transport
from enginefarm.client.uploads import Remembered, Uploads
from enginefarm.digest import digest_of, hex_of
from enginefarm.errors import Conflict, FarmError, InvalidModel, NotFound
from enginefarm.state import Blame, UploadState
from enginefarm.upload import DeclaredFile, UploadSpec, UploadView

Sent = Callable[[int, int], None]
"""Called with the bytes sent so far and the bytes in all."""
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.1, 2.0
_GONE_MEANWHILE = frozenset({"upload_not_open", "upload_lost", "upload_incomplete"})


class Resumable:
    """One model on its way to one farm."""

    def __init__(
        self,
        transport: Transport,
        model: LocalModel,
        remember: Path | None = None,
        sent: Sent | None = None,
        verified: Sent | None = None,
        resumed: Sent | None = None,
    ) -> None:
        """Send ``model``; what is begun is noted in the folder ``remember``.

        ``resumed`` is told once what a run before has sent, if there was one.
        """
        self._resumed = resumed
        self._transport = transport
        self._verified = verified
        self.uploads = Uploads(transport)
        self._model = model
        self._files = [model.main, *model.external]
        self._sent = sent
        self._note = Remembered(remember, _note_of(transport.url, model.digest))

    def upload(self, name: str, sleep: Callable[[float], None] = time.sleep) -> str:
        """Send what is missing, wait until the farm has read it again; return the model's digest.

        Raises:
            InvalidModel: the farm refuses it.
            FarmError: something else is wrong; what was sent is there for the next run.
        """
        ended = self._tried(name, sleep)
        self._note.forget()
        if ended is None:
            # It was given up or removed while this ran: once more, from the declaration.
            ended = self._to_its_end(self._begun(name), sleep)
            self._note.forget()
        if ended.model is None:
            raise _refusal(ended)
        return ended.model

    def _tried(self, name: str, sleep: Callable[[float], None]) -> UploadView | None:
        """Return how the upload ended; None if it has gone meanwhile."""
        try:
            ended = self._to_its_end(self._begun(name), sleep)
        except Conflict as error:
            if error.code not in _GONE_MEANWHILE:
                raise
            return None
        code = ended.failure.code if ended.failure is not None else ""
        return None if code in _GONE_MEANWHILE else ended

    def forget(self) -> None:
        """Forget an upload that was begun: the farm has the model."""
        self._note.forget()

    def _begun(self, name: str) -> UploadView:
        """Return the upload of the run before, if it can go on, else a new one."""
        known = self._note.read()
        if known is not None:
            try:
                upload = self.uploads.get(known)
            except NotFound:
                self._note.forget()
            else:
                declared = [(file.digest, file.size) for file in upload.files]
                same = declared == [(file.digest, file.size) for file in self._files]
                if same and upload.state in {UploadState.OPEN, UploadState.VERIFYING}:
                    self._tell_resumed(upload)
                    return upload
        files = [
            DeclaredFile(name=file.name, size=file.size, digest=file.digest) for file in self._files
        ]
        upload = self.uploads.declare(UploadSpec(files=files, name=name))
        self._note.write(upload.id)
        return upload

    def _tell_resumed(self, upload: UploadView) -> None:
        open_yet = upload.state is UploadState.OPEN
        left = sum(part.size for part in missing(upload)) if open_yet else 0
        if self._resumed is not None and left < upload.size:
            self._resumed(upload.size - left, upload.size)

    def _to_its_end(self, upload: UploadView, sleep: Callable[[float], None]) -> UploadView:
        if upload.state is UploadState.OPEN:
            left = sum(part.size for part in missing(upload))
            counter = _Counter(self._sent, upload.size - left, upload.size)
            paths = [file.path for file in self._files]
            with self._transport.stranger() as bucket:
                PartSender(self.uploads, bucket, paths, counter.add).send(upload)
            upload = self.uploads.complete(upload.id)
        pause = _FIRST_LOOK_S
        while not upload.state.terminal:
            sleep(pause)
            pause = min(pause * 1.5, _LONGEST_LOOK_S)
            upload = self.uploads.get(upload.id)
            if self._verified is not None:
                self._verified(upload.verified_bytes, upload.size)
        return upload


class _Counter:
    """Adds up what several threads have sent."""

    def __init__(self, told: Sent | None, done: int, total: int) -> None:
        self._told, self._done, self._total = told, done, total
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._told is not None:
                self._told(self._done, self._total)


def _note_of(url: str, digest: str) -> str:
    """Return a name for this model on its way to this farm."""
    return hex_of(digest_of(f"{url} {digest}".encode()))


def _refusal(upload: UploadView) -> FarmError:
    failure = upload.failure
    if failure is None:
        return Conflict(
            f"The upload is {upload.state}.",
            code="upload_not_open",
            why="Somebody has removed it.",
            fix="Repeat the command: it begins anew, and what is there is not sent twice.",
        )
    family = InvalidModel if failure.blame is Blame.PERSON else FarmError
    error = family(failure.message, code=failure.code, why=failure.why, fix=failure.fix)
    error.context = dict(failure.context)
    return error
