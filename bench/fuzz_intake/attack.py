"""Send the requests, judge the answers, and watch what the processes take."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

from bench.fuzz_intake.cases import Request
from enginefarm.codes import CODES
from workers.processes import descendants

HANG_S = 90.0
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_SERVER_ERROR, _BAD = 500, 400


@dataclass
class Tally:
    """What became of the requests; the first five of what must not be are kept."""

    cases: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    hangs: int = 0
    server_errors: int = 0
    unexplained: int = 0
    slowest_s: float = 0.0
    examples: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """How many answers were none, or not an answer to the sender."""
        return self.crashes + self.hangs + self.server_errors + self.unexplained

    def judge(self, request: Request, answer: httpx.Response | Exception, seconds: float) -> None:
        """Count one answer."""
        self.cases[request.kind] += 1
        self.slowest_s = max(self.slowest_s, seconds)
        if isinstance(answer, Exception):
            if isinstance(answer, httpx.TimeoutException):
                self.hangs += 1
            else:
                self.unexplained += 1
            self._keep(request, repr(answer))
        elif answer.status_code < _BAD:
            self.accepted[request.kind] += 1
        else:
            self._refusal(request, answer)

    def _refusal(self, request: Request, answer: httpx.Response) -> None:
        code = ""
        with suppress(ValueError, KeyError, TypeError):
            code = str(answer.json()["code"])
        is_problem = answer.headers.get("content-type") == "application/problem+json"
        if answer.status_code >= _SERVER_ERROR:
            self.server_errors += 1
            self._keep(request, f"{answer.status_code} {answer.text[:300]}")
        elif code == "reader_crashed":
            self.crashes += 1
            self._keep(request, answer.text[:300])
        elif not is_problem or code not in CODES:
            self.unexplained += 1
            self._keep(request, f"{answer.status_code} {answer.text[:300]}")
        else:
            self.refused[code] += 1

    def _keep(self, request: Request, what: str) -> None:
        if len(self.examples) < 5:  # noqa: PLR2004 - see the class
            self.examples.append(f"{request.kind} {request.path} {request.body[:80]!r}: {what}")


def attack(
    client: httpx.Client, requests: Iterable[Request], tally: Tally, *, at_once: int = 4
) -> None:
    """Send the requests, some at once, and judge each answer."""
    lock = threading.Lock()

    def send(request: Request) -> None:
        began = time.monotonic()
        answer: httpx.Response | Exception
        try:
            answer = client.request(
                request.method, request.path, content=request.body, headers=request.headers
            )
        except httpx.HTTPError as error:
            answer = error
        with lock:
            tally.judge(request, answer, time.monotonic() - began)

    with ThreadPoolExecutor(at_once) as pool:
        # A few ahead, not all of them: there may be very many.
        waiting = []
        for request in requests:
            waiting.append(pool.submit(send, request))
            if len(waiting) >= 2 * at_once:
                waiting.pop(0).result()


@dataclass
class Watch:
    """Sees the peak of a process and of each of its children, as long as the block runs."""

    pid: int
    of_children: int = 0
    children: set[int] = field(default_factory=set)
    most_at_once: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    @property
    def own(self) -> int:
        """The most memory that the process itself has had, in bytes."""
        return peak_of(self.pid)

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            now = [pid for pid in descendants(self.pid) if is_reader(pid)]
            self.most_at_once = max(self.most_at_once, len(now))
            self.children |= set(now)
            self.of_children = max([self.of_children, *map(peak_of, now)])


def is_reader(pid: int) -> bool:
    """Tell whether a process is a reader; between its birth and that it is a copy of the API."""
    try:
        return b"intake/child.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def peak_of(pid: int) -> int:
    """Return the most memory that a process has had; 0 if it is gone."""
    try:
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text("ascii", "replace"))
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0
