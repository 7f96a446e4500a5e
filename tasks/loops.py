"""Run the control loops: often while there is work, calmly while there is none."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from enginefarm.errors import FarmError

_log = structlog.get_logger()
_AFTER_TROUBLE_S = 1.0


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


def _run(loop: Loop, stop: threading.Event, health_dir: Path | None) -> None:
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
