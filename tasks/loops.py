"""Run the control loops: often while there is work, calmly while there is none.

A loop that is told to stop finishes the step it is in, and leaves the other jobs of its turn to
whoever comes next: the rows say what is left to do.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import structlog

from enginefarm.errors import FarmError, Unavailable

_log = structlog.get_logger()
_AFTER_TROUBLE_S = 1.0
_stopping: ContextVar[threading.Event | None] = ContextVar("stopping", default=None)
"""What tells the loop of this thread to stop."""


@dataclass(frozen=True)
class Loop:
    """One thing done again and again; ``turn`` returns how much there was to do."""

    name: str
    turn: Callable[[], int]
    pause_s: float


def run(loops: list[Loop], stop: threading.Event, health_dir: Path | None) -> None:
    """Run each loop in its own thread until ``stop`` is set."""
    threads = [
        threading.Thread(target=_run, args=(loop, stop, health_dir), name=loop.name)
        for loop in loops
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_by_one(ids: Sequence[str], step: Callable[[str], None], kind: str = "job") -> None:
    """Take a step for each job; one that cannot be digested does not keep the others waiting.

    ``kind`` says what they are, if not jobs. In a loop that was told to stop no step begins.

    Raises:
        Unavailable: a part of the farm is away; the other jobs would fare no better.
        Exception: the first trouble, after every job had its turn.
    """
    trouble: Exception | None = None
    stop = _stopping.get()
    for each in ids:
        if stop is not None and stop.is_set():
            break
        with structlog.contextvars.bound_contextvars(**{kind: each}):
            try:
                step(each)
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - raised again below
                _log.error("step_failed", traceback=traceback.format_exc())
                trouble = trouble or error
    if trouble is not None:
        raise trouble


def _run(loop: Loop, stop: threading.Event, health_dir: Path | None) -> None:
    _stopping.set(stop)
    _log.info("loop_started", loop=loop.name)
    while not stop.is_set():
        try:
            pause = 0.0 if loop.turn() else loop.pause_s
        except FarmError as error:
            # The farm's parts come and go; the rows say what is left to do.
            _log.warning("loop_trouble", loop=loop.name, code=error.code, error=str(error))
            pause = _AFTER_TROUBLE_S
        except Exception:  # noqa: BLE001 - a loop must not end on a row it cannot digest
            _log.error("loop_failed", loop=loop.name, traceback=traceback.format_exc())
            pause = _AFTER_TROUBLE_S
        if health_dir is not None:
            (health_dir / f"{loop.name}.alive").touch()
        stop.wait(pause)
    _log.info("loop_stopped", loop=loop.name)
