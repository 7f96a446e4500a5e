"""Send hostile uploads to a real API, over HTTP, and see that each of them is only refused.

    python -m bench.fuzz_intake [--cases N] [--seconds S] [--seed N]

It starts services and an API process of its own in a temporary folder. Real models and datasets
are changed, cut and made up; forms, names and declarations are odd. Exit status 1 if any answer
was a server's error, took too long or came without a code, if a reader crashed, or if memory went
above the limits.
"""

from __future__ import annotations

import argparse
import itertools
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from bench.fuzz_intake.attack import HANG_S, Tally, Watch, attack
from bench.fuzz_intake.cases import KINDS, Cases, Request
from enginefarm.state import Scope
from localfarm.services import Services, running_services
from localfarm.settings import ROOT, inherited_environment
from storage import access, migrate
from storage.database import Database
from storage.objects import S3Objects
from storage.settings import StorageSettings

READER_MEMORY = 256 << 20
# An interpreter with what it has loaded, above which a reader gets its memory.
_INTERPRETER = 96 << 20
_API_MEMORY = 512 << 20
_console = Console(width=110, highlight=False)


def main() -> int:
    """Attack, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    asked = parser.parse_args()
    _console.print(f"seed {asked.seed}: at most {asked.cases} cases, {asked.seconds:g} seconds")
    tally = Tally()
    cases = Cases(random.Random(asked.seed))  # noqa: S311 - to be repeated, not to be secret
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as name,
        running_api(Path(name)) as (
            process,
            client,
        ),
    ):
        with Watch(process.pid) as watch:
            attack(client, within(cases, asked.cases, asked.seconds), tally)
            own = watch.own
        dead = process.poll() is not None
        _console.print(shown(tally, watch, own))
        for example in tally.examples:
            _console.print(example, style="red", markup=False)
        left = [path.name for path in (Path(name) / "spool").iterdir()]
    above = watch.of_children > READER_MEMORY + _INTERPRETER or own > _API_MEMORY
    if dead or left:
        _console.print("the API is dead" if dead else f"left in the spool: {left[:5]}", style="red")
    return 1 if tally.bad or dead or above or left else 0


def within(cases: Cases, count: int, seconds: float) -> Iterator[Request]:
    """Give so many requests, until the time is over."""
    deadline = time.monotonic() + seconds
    for number in itertools.count():
        if number >= count or time.monotonic() > deadline:
            return
        yield cases.make(number)


@contextmanager
def running_api(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """Run an API process over services of its own; give it and a client with a key."""
    (folder / "spool").mkdir()
    with (
        tempfile.TemporaryDirectory(prefix="enginefarm-") as place,
        running_services(Path(place), durable=False) as services,
    ):
        told = settings_for(services, folder)
        migrate.upgrade(told["database_url"])
        S3Objects.from_settings(StorageSettings.model_validate(told)).ensure_bucket()
        told_by = {f"ENGINEFARM_{name.upper()}": value for name, value in told.items()}
        with (folder / "api.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "api"],
                cwd=ROOT,
                env=inherited_environment() | told_by,
                stdout=log,
                stderr=log,
            )
        try:
            url = f"http://127.0.0.1:{told['port']}"
            wait_until_ready(url, process)
            headers = {"Authorization": f"Bearer {key_for(told['database_url'])}"}
            with httpx.Client(base_url=url, headers=headers, timeout=HANG_S) as client:
                yield process, client
        finally:
            process.terminate()
            process.wait(30)


def settings_for(services: Services, folder: Path) -> dict[str, str]:
    """Return the settings of a small API over these services."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return {
        "database_url": services.postgres.ensure_database("fuzz"),
        "valkey_url": services.valkey.url(1),
        "s3_endpoint": services.s3.endpoint,
        "s3_region": services.s3.region,
        "s3_bucket": "fuzz",
        "s3_access_key": services.credentials.s3_access_key,
        "s3_secret_key": services.credentials.s3_secret_key,
        "port": str(port),
        "spool_dir": str(folder / "spool"),
        "max_model_bytes": str(16 << 20),
        "max_dataset_bytes": str(16 << 20),
        "max_dataset_expanded_bytes": str(64 << 20),
        "reader_memory_bytes": str(READER_MEMORY),
    }


def key_for(database_url: str) -> str:
    """Return a key that may submit."""
    database = Database(database_url)
    with database.transaction() as session:
        tenant = access.ensure_tenant(session, "fuzz")
        _, text = access.create_key(session, tenant.id, "fuzz", [Scope.SUBMIT], None)
    database.dispose()
    return text


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the API answers that it is ready."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", timeout=10).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError(url)


def shown(tally: Tally, watch: Watch, own: int) -> Table:
    """Return the table of what became of the requests."""
    table = Table("what", "count", title="hostile uploads")
    for kind in KINDS:
        table.add_row(kind, f"{tally.cases[kind]} (accepted {tally.accepted[kind]})")
    table.add_section()
    for code, count in tally.refused.most_common():
        table.add_row(f"refused: {code}", str(count))
    table.add_section()
    rows = {
        "cases": tally.cases.total(),
        "accepted": tally.accepted.total(),
        "readers that crashed": tally.crashes,
        "hangs": tally.hangs,
        "5xx": tally.server_errors,
        "answers without a code": tally.unexplained,
        "slowest answer": f"{tally.slowest_s:.1f} s",
        "readers seen, and at once": f"{len(watch.children)}, {watch.most_at_once}",
        "peak memory of a reader": f"{watch.of_children >> 20} MiB",
        "peak memory of the API": f"{own >> 20} MiB",
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


if __name__ == "__main__":
    sys.exit(main())
