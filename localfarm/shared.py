"""One set of services for all processes of a test run: ``python -m localfarm.shared FOLDER PID``.

Whoever needs it first starts it; each service's address is written to a file as soon as it
answers. It ends, and its folder with it, when the process PID (that of the test run) ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from localfarm.credentials import write_private
from localfarm.errors import LocalFarmError
from localfarm.process import detach, tail
from localfarm.services import READY_SECONDS, Services
from localfarm.settings import inherited_environment

_ERROR = "error"


def services_of_run(name: str, folder: Path, run_pid: int) -> Services:
    """Return the services of a test run once the named one answers; start them if need be."""
    folder.mkdir(exist_ok=True, mode=0o711)
    log = folder / "shared.log"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not log.exists():
            argv = [sys.executable, "-m", "localfarm.shared", str(folder), str(run_pid)]
            detach(argv, log=log, environment=inherited_environment())
    _wait_for(folder, name, log)
    return Services(folder, durable=False)


def _wait_for(folder: Path, name: str, log: Path) -> None:
    deadline = time.monotonic() + 2 * READY_SECONDS
    while not (folder / f"{name}.ready").exists():
        if (folder / _ERROR).exists() or time.monotonic() > deadline:
            raise LocalFarmError(
                f"The services of this test run did not start: {name} is missing.",
                code="service_failed",
                why="\n".join(tail(log, 30)),
            )
        time.sleep(0.02)


def main(folder: Path, run_pid: int) -> None:
    """Run the services until the test run ends, then remove every trace of them."""
    run = os.pidfd_open(run_pid)
    services = Services(folder, durable=False)
    try:
        services.start()
        waits: list[tuple[str, Callable[[], bool]]] = [
            ("valkey", services.valkey.ready),
            ("postgres", services.postgres.ready),
            ("seaweedfs", services.s3.ready),
        ]
        for name, ready in waits:
            services.wait_for(name, ready)
            (folder / f"{name}.ready").touch()
        select.select([run], [], [])
    except BaseException as error:
        write_private(folder / _ERROR, str(error))
        raise
    finally:
        services.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
