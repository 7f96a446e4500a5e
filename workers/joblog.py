"""What a job's child printed, up to a cap whose cut is said; and the news since a mark.

Half of the cap holds the beginning, half the end: how it was started and how it ended matter most.
"""

from __future__ import annotations

import threading
from collections import deque

NEWS_BYTES = 60_000


class JobLog:
    """A log with a cap; safe to read from another thread."""

    def __init__(self, cap_bytes: int) -> None:
        """Keep at most about ``cap_bytes``."""
        self._half = max(cap_bytes // 2, 1)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0
        self._written = 0
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Append what the child printed."""
        with self._lock:
            self._written += len(data)
            room = self._half - len(self._head)
            self._head += data[: max(room, 0)]
            rest = data[max(room, 0) :]
            if rest:
                self._tail.append(rest)
                self._tail_bytes += len(rest)
            while self._tail_bytes > self._half:
                self._shorten_tail()

    def _shorten_tail(self) -> None:
        first = self._tail.popleft()
        excess = min(self._tail_bytes - self._half, len(first))
        self._tail_bytes -= excess
        self._dropped += excess
        if excess < len(first):
            self._tail.appendleft(first[excess:])

    def say(self, line: str) -> None:
        """Append a line of the farm's own."""
        self.write(f"enginefarm: {line}\n".encode())

    def render(self) -> bytes:
        """Return the whole, with a line where something was cut."""
        with self._lock:
            cut = b""
            if self._dropped:
                cut = f"\nenginefarm: {self._dropped} bytes of the log were cut here\n".encode()
            return bytes(self._head) + cut + b"".join(self._tail)

    def since(self, mark: int) -> tuple[str, int]:
        """Return what was written after ``mark`` (its end, if that is much), and the new mark."""
        with self._lock:
            fresh = min(self._written - mark, NEWS_BYTES)
            if fresh <= 0:
                return "", self._written
            kept = b"".join(self._tail) if self._tail else b""
            if len(kept) < fresh and not self._dropped:
                kept = bytes(self._head) + kept
            return kept[-fresh:].decode(errors="replace"), self._written
