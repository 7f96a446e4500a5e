"""A node's side of the watch over its GPUs: start it, hear it, start it again if it ends.

What it says lies in a file as well, for the processes of the node's jobs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

from workers.settings import child_environment

AGAIN_S, STOP_S = 10.0, 5.0
SILENT = "nobody looks after it: the watch has ended, see the node's log"
log = structlog.get_logger(__name__)


class DeviceCare:
    """Hears of devices that are unwell, or well again, and tells the node."""

    def __init__(
        self,
        uuids: Sequence[str],
        lock_folder: Path,
        kept: Path,
        changed: Callable[[Mapping[str, str]], None],
        module: str = "workers.gpu.watch",
    ) -> None:
        """Look after these devices. ``changed`` gets the faults of those that are out, by UUID."""
        self._uuids = list(uuids)
        self._command = [sys.executable, "-P", "-m", module, "--parent", str(os.getpid())]
        self._command += ["--locks", str(lock_folder), *uuids]
        self._kept = kept
        self._changed = changed
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._care, name="device-care", daemon=True)

    def start(self) -> None:
        """Look after them from now on; without any, do nothing."""
        if self._uuids:
            self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()
        if self._process is not None:
            self._process.terminate()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_S)

    def _care(self) -> None:
        while not self._ended.is_set():
            try:
                self._hear_one()
            except (OSError, ValueError) as error:
                # What it says is not kept, or not understood: then it is as if there were none.
                log.error("device_watch_unheard", why=str(error))  # noqa: TRY400 - said in full
            if not self._ended.is_set():
                log.error("device_watch_ended", again_in_s=AGAIN_S)
                self._tell(dict.fromkeys(self._uuids, SILENT))
            self._ended.wait(AGAIN_S)

    def _hear_one(self) -> None:
        """Hear one watch out. It dies with this thread, which started it."""
        environment = child_environment(self._kept.parent)
        with subprocess.Popen(
            self._command,
            cwd=self._kept.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as self._process:
            for line in self._process.stdout or ():
                said = json.loads(line)
                self._tell({uuid: why for uuid, why in said.items() if why is not None})

    def _tell(self, faults: dict[str, str]) -> None:
        write_faults(self._kept, faults)
        for uuid, why in faults.items():
            log.warning("device_out", device=uuid, why=why)
        self._changed(faults)


def write_faults(path: Path, faults: Mapping[str, str]) -> None:
    """Write, whole, why devices are out."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(dict(faults)))
    part.replace(path)


def read_faults(path: Path) -> dict[str, str]:
    """Return what was written last; nothing yet is no fault."""
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return {str(uuid): str(why) for uuid, why in said.items()}
