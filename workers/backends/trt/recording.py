"""What TensorRT says: one logger for the process, and a recorder for the builder's errors.

With a recorder set, the builder's errors go only there, so both are read. On a host without a GPU
every error is followed by cudaError 35, which blames a driver that is not needed: it is dropped.
"""

from __future__ import annotations

import re
import threading
from types import ModuleType
from typing import Any

_NO_DRIVER = re.compile(
    r"cudaError 35\b|CUDA driver version is insufficient|CUDA initialization"
    r"|no CUDA-capable device is detected"  # where the job was to see none
)
_HITS = re.compile(r"timing cache: \d+ entries, served (\d+) hits", re.IGNORECASE)
_NOT_TAKEN = re.compile(
    r"timing cache (will not be used|header mismatch)|incoming \w*cache will not be", re.IGNORECASE
)
_SOURCE = re.compile(r"^\[?\w+\.(?:cpp|h)(?:::\w+)*(?:::?\d+)?[\]:]*\s*")


class Record:
    """Errors and warnings in the order in which they came, without the noise."""

    def __init__(self, *, has_gpu: bool) -> None:
        self.has_gpu = has_gpu
        self._lock = threading.Lock()
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.timing_refusals: list[str] = []
        self.timing_hits: int | None = None

    def hear_of_timings(self, text: str) -> None:
        """Note what a message, of any severity, says of a timing cache."""
        found = _HITS.search(text)
        if found is not None:
            self.timing_hits = (self.timing_hits or 0) + int(found[1])
        if _NOT_TAKEN.search(text):
            self.timing_refusals.append(text)

    def add_error(self, text: str) -> None:
        """Keep an error unless it only says that there is no GPU here."""
        self._add(self.errors, text)

    def add_warning(self, text: str) -> None:
        """Keep a warning, under the same rule."""
        self._add(self.warnings, text)

    def heard(self, text: str) -> str:
        """Return a message without what is only noise here."""
        return without_noise(text, has_gpu=self.has_gpu)

    def clear(self) -> None:
        """Forget what was said of another model."""
        self.errors.clear()
        self.warnings.clear()

    def _add(self, rows: list[str], text: str) -> None:
        if not self.has_gpu and _NO_DRIVER.search(text):
            return
        with self._lock:
            if text not in rows:
                rows.append(text)


def plain(text: str) -> str:
    """Return a message without the source position in front of it."""
    return _SOURCE.sub("", text.strip()).strip()


def without_noise(text: str, *, has_gpu: bool) -> str:
    """Return a message without the lines that only say that there is no GPU on a host without."""
    if has_gpu:
        return text
    return "\n".join(line for line in text.splitlines() if not _NO_DRIVER.search(line))


def make_logger(trt: ModuleType, record: Record) -> Any:  # noqa: ANN401 - the runtime's class
    """Return an ``ILogger`` that prints what matters (the child's log) and keeps it."""
    keep_error = {trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR}
    keep_warning = trt.ILogger.Severity.WARNING
    silent = trt.ILogger.Severity.VERBOSE

    class Logger(trt.ILogger):  # type: ignore[name-defined,misc]  # a class of a module handed over
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:  # noqa: ANN401 - the runtime's enum
            record.hear_of_timings(msg)
            if severity != silent:
                print(f"[{severity.name}] {msg}", flush=True)  # noqa: T201 - stdout is the job's log
            if severity in keep_error:
                record.add_error(msg)
            elif severity == keep_warning:
                record.add_warning(msg)

    return Logger()


def make_recorder(trt: ModuleType, record: Record) -> Any:  # noqa: ANN401 - the runtime's class
    """Return an ``IErrorRecorder``. Attach it only after parsing: before, teardown crashes."""

    class Recorder(trt.IErrorRecorder):  # type: ignore[name-defined,misc]  # a class of a module handed over
        def __init__(self) -> None:
            trt.IErrorRecorder.__init__(self)
            self._rows: list[tuple[Any, str]] = []

        def clear(self) -> None:
            self._rows.clear()

        def num_errors(self) -> int:
            return len(self._rows)

        def get_error_code(self, index: int) -> Any:  # noqa: ANN401 - the runtime's enum
            return self._rows[index][0]

        def get_error_desc(self, index: int) -> str:
            return self._rows[index][1]

        def has_overflowed(self) -> bool:
            return False

        def report_error(self, code: Any, desc: str) -> bool:  # noqa: ANN401 - the runtime's enum
            self._rows.append((code, desc))
            print(f"[ERROR] {desc}", flush=True)  # noqa: T201 - stdout is the job's log
            record.add_error(desc)
            record.hear_of_timings(desc)
            return False

    return Recorder()
