"""Read an upload in a process of its own: started for one file, bounded, gone afterwards.

The process gets an empty environment, the file as its standard input and a pipe to answer on; it
leads a process group of its own and dies with the thread that started it. What it answers is
bounded and checked, since a stranger's file has passed through it.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import structlog
from pydantic import ValidationError

from enginefarm.codes import CODES
from enginefarm.errors import FarmError, InvalidDataset, InvalidModel, TooLarge
from intake import endings
from intake.findings import ANSWER, READY, Answer, DatasetFound, ModelFound, Question, Refused

_log = structlog.get_logger()
_CHILD = Path(__file__).with_name("child.py")
# NumPy's linear algebra starts a thread for each core, and reserves memory for each.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
_FAMILIES = {kind.__name__: kind for kind in (InvalidModel, InvalidDataset, TooLarge)}
_PIECE = 1 << 16
_TAIL = 2000
# The last words of an interpreter, or of a library in Rust, to which memory was refused.
_NO_MEMORY = re.compile(rb"\bMemoryError\b|memory allocation of \d+ bytes failed")


@dataclass(frozen=True)
class Limits:
    """What one reader may use.

    Memory comes on top of what the interpreter takes; ``cpu_s`` is its own computing, ``wall_s``
    all of its time.
    """

    memory_bytes: int = 512 << 20
    cpu_s: int = 60
    wall_s: float = 180.0
    answer_bytes: int = 32 << 20


@dataclass(frozen=True)
class Ended:
    """How a reader ended: what it said, the limit that ended it, and its status."""

    said: bytes
    exceeded: str
    returncode: int


@dataclass(frozen=True)
class Reader:
    """Reads models and datasets, each in a fresh process."""

    limits: Limits = Limits()

    def model(self, path: Path) -> ModelFound:
        """Return what a model file holds.

        Raises:
            InvalidModel: the codes of :func:`enginefarm.model_file.scan_open_model`;
                ``model_too_complex`` naming the limit, ``reader_crashed``.
            Unavailable: no reader could be started (code ``reader_unavailable``).
        """
        found = self._read(path, "model").model
        if found is None:
            raise endings.crashed("model", "its answer is about something else")
        return found

    def dataset(self, path: Path, *, max_bytes: int, max_expanded_bytes: int) -> DatasetFound:
        """Return what a dataset holds.

        Raises:
            InvalidDataset: the codes of :func:`intake.datasets.scan_npz`; ``dataset_too_complex``
                naming the limit, ``reader_crashed``.
            TooLarge: it is above ``max_bytes``, or ``max_expanded_bytes`` once unpacked.
            Unavailable: no reader could be started (code ``reader_unavailable``).
        """
        sizes = {"max_bytes": max_bytes, "max_expanded_bytes": max_expanded_bytes}
        found = self._read(path, "dataset", **sizes).dataset
        if found is None:
            raise endings.crashed("dataset", "its answer is about something else")
        return found

    def _read(
        self,
        path: Path,
        what: Literal["model", "dataset"],
        *,
        max_bytes: int = 0,
        max_expanded_bytes: int = 0,
    ) -> Answer:
        question = Question(
            what=what,
            parent=os.getpid(),
            memory_bytes=self.limits.memory_bytes,
            cpu_s=self.limits.cpu_s,
            max_bytes=max_bytes,
            max_expanded_bytes=max_expanded_bytes,
        )
        began = time.monotonic()
        with path.open("rb") as file:
            ended = run(question, file, self.limits)
        seconds = round(time.monotonic() - began, 3)
        try:
            answer = _understood(what, ended, self.limits)
        except FarmError as error:
            _log.info("upload_refused", what=what, seconds=seconds, code=error.code)
            raise
        _log.info("upload_read", what=what, seconds=seconds, peak_bytes=answer.peak_bytes)
        if answer.refused is not None:
            raise _as_error(answer.refused)
        return answer


def run(question: Question, file: IO[bytes], limits: Limits) -> Ended:
    """Start a reader, listen to it, and see it end; nothing of it is alive afterwards.

    Raises:
        Unavailable: it could not be started (code ``reader_unavailable``).
    """
    command = [sys.executable, "-I", "-W", "ignore", str(_CHILD), question.model_dump_json()]
    try:
        child = subprocess.Popen(
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise endings.not_started(os.strerror(error.errno or 0)) from error
    deadline = time.monotonic() + limits.wall_s
    exceeded, heard, said = "", False, bytearray()
    try:
        exceeded, heard = _listen(child, said, deadline, limits), True
    finally:
        # Whoever has passed a limit, or is not listened to any more, has no time left.
        returncode = _end(child, deadline - time.monotonic() if heard and not exceeded else 0.0)
    return Ended(bytes(said), exceeded, returncode)


def _listen(
    child: subprocess.Popen[bytes], said: bytearray, deadline: float, limits: Limits
) -> str:
    """Take in what the child says until it stops; return the limit that was passed, if one was."""
    assert child.stdout is not None  # noqa: S101 - a pipe was asked for
    poll = select.poll()
    poll.register(child.stdout, select.POLLIN)
    with child.stdout as pipe:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return f"{limits.wall_s:g} seconds"
            if not poll.poll(left * 1000):
                continue
            piece = os.read(pipe.fileno(), _PIECE)
            if not piece:
                return ""
            said += piece
            if len(said) > limits.answer_bytes:
                return f"{limits.answer_bytes} bytes of names and shapes"


def _end(child: subprocess.Popen[bytes], seconds: float) -> int:
    """Wait for the end so long, then make it; return the status."""
    try:
        return child.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):  # it ended just now
            os.killpg(child.pid, signal.SIGKILL)
        return child.wait()


def _understood(what: Literal["model", "dataset"], ended: Ended, limits: Limits) -> Answer:
    """Return the answer, or raise what it amounts to."""
    if not ended.said.startswith(READY):
        _log.error("reader_not_started", said=ended.said[-_TAIL:].decode(errors="replace"))
        raise endings.not_started(ended.exceeded or f"it ended with {ended.returncode}")
    if ended.exceeded:
        raise endings.exceeded(what, ended.exceeded)
    if ended.returncode == -signal.SIGXCPU:
        raise endings.exceeded(what, f"{limits.cpu_s} seconds of computing")
    if _NO_MEMORY.search(ended.said, max(0, len(ended.said) - _TAIL)) and ended.returncode != 0:
        raise endings.exceeded(what, f"{limits.memory_bytes} bytes of memory")
    if ended.returncode != 0:
        _log.error("reader_crashed", said=ended.said[-_TAIL:].decode(errors="replace"))
        raise endings.crashed(what, f"it ended with {ended.returncode}")
    try:
        line = ended.said.rpartition(ANSWER)[2].partition(b"\n")[0]
        answer = Answer.model_validate_json(line)
    except ValidationError as error:
        raise endings.crashed(what, "its answer cannot be read") from error
    if answer.out_of_memory:
        raise endings.exceeded(what, f"{limits.memory_bytes} bytes of memory")
    if answer.crashed:
        _log.error("reader_crashed", said=answer.crashed)
        raise endings.crashed(what, answer.crashed.partition(":")[0])
    return answer


def _as_error(refused: Refused) -> FarmError:
    failure = refused.failure
    known = failure.code if failure.code in CODES else None
    error = _FAMILIES[refused.family](failure.message, code=known, why=failure.why, fix=failure.fix)
    error.context = dict(failure.context)
    return error
