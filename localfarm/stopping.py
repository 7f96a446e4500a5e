"""Signals that end a command: each becomes one exception, so that every ``finally`` runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Ended(BaseException):
    """A signal asked the command to end."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Leave the block quietly when a signal asks for it; a second signal does not hurry that."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        raise _Ended

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    except _Ended:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
