"""Kill the farm's parts at random while it builds, and see that nothing is lost or made twice.

    python -m bench.chaos [--builds N] [--kills N] [--pause S] [--seed N] [--keep FOLDER]

It starts a farm of its own in a temporary folder, with short clocks. Tenants submit through the
public client while a killer kills: API, control loops, node, its slot, a job's child, Valkey (with
and without its data), PostgreSQL, SeaweedFS, two at once, or whatever process reaches a named step
(``tasks.fault_points``). Then the farm is left to finish, and is judged from rows and bucket, see
``bench.chaos.judge``. Exit status 1 if anything was lost, made twice or is missing.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.chaos.farm import Victim, running_victim
from bench.chaos.judge import Verdict, judge, unfinished
from bench.chaos.killer import Killer
from bench.chaos.load import Load, make_models, make_tenants
from enginefarm.errors import Unavailable
from localfarm.programs import BUCKET, DATABASE
from localfarm.stopping import ended_by_signals
from storage.database import Database
from storage.objects import S3Objects
from storage.settings import StorageSettings

TENANTS = 4
_TELL_S = 10.0
_LEFT_ALONE_S = 900.0
_console = Console(width=110, highlight=False)
_began = time.monotonic()


def main() -> int:
    """Start a farm, kill it bit by bit, judge it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--builds", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--pause", type=float, default=5.0, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--keep", type=Path, help="run in this new folder and leave it there")
    asked = parser.parse_args()
    say(f"seed {asked.seed}: {asked.builds} builds, {asked.kills} kills, {os.cpu_count()} cores")
    code = 1  # what is left when a signal ends it
    with ended_by_signals(), _place(asked.keep) as place:
        with running_victim(place) as (victim, running):
            came = _torment(victim, running.url, asked)
        strays = victim.strays()
        for row in strays:
            say(f"  outlived the farm: {row}")
        code = came or int(bool(strays))
    return code  # noqa: RET504 - a signal leaves it as it was


def say(words: str) -> None:
    """Say one line, with the seconds since the start."""
    _console.print(f"{time.monotonic() - _began:6.1f}  {words}", markup=False)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="chaos-") as name:
            yield Path(name)
        return
    keep.mkdir(parents=True)
    yield keep.resolve()


def _torment(victim: Victim, url: str, asked: argparse.Namespace) -> int:
    database = Database(victim.services.postgres.url(DATABASE), pool_size=2)
    rng = random.Random(asked.seed)  # noqa: S311 - to be repeated, not secret
    killer = Killer(victim, asked.kills, asked.pause, rng, say)
    tenants = make_tenants(victim.folder, database, TENANTS)
    models = make_models(victim.folder.path.parent)
    load = Load(url, tenants, models, asked.builds, asked.seed, lambda: killer.done, say)
    start = time.monotonic()
    at_work = load.start()
    hand = threading.Thread(target=killer.run, name="killer", daemon=True)
    hand.start()
    peak = _attend(victim, database, load, killer, [hand, *at_work])
    seconds = time.monotonic() - start
    found = judge(database, _bucket(victim), load.accepted, load.asked, killer.kills)
    database.dispose()
    strays = victim.strays()
    _show(found, load, killer, seconds, peak)
    for what, rows in (
        ("lost", found.lost),
        ("made twice", found.doubled),
        ("missing", found.missing),
        ("runs, and nobody tends it", strays),
    ):
        for row in rows:
            say(f"  {what}: {row}")
    refused = len(load.asked) - len(load.accepted)
    if refused:
        say(f"  {refused} submits were given up without an answer")
    return 0 if found.clean and not strays and not refused else 1


def _attend(
    victim: Victim,
    database: Database,
    load: Load,
    killer: Killer,
    threads: list[threading.Thread],
) -> int:
    """Tell how it goes until everything has ended; return the most memory that was seen."""
    peak, told, deadline = 0, 0.0, 0.0
    while True:
        moment = time.monotonic()
        busy = any(thread.is_alive() for thread in threads)
        if not busy and not deadline:
            say("the killing is over; the farm is left to finish")
            deadline = moment + _LEFT_ALONE_S
        memory, left = victim.memory(), _left(database)
        peak = max(peak, memory)
        over = not busy and left == 0
        if over or moment > told + _TELL_S:
            told = moment
            say(
                f"{len(load.accepted)} accepted, {'?' if left is None else left} unfinished,"
                f" {len(killer.kills)} kills, {memory >> 20} MiB"
            )
        if over:
            return peak
        if deadline and moment > deadline:
            say("it does not finish")
            return peak
        time.sleep(1.0)


def _left(database: Database) -> int | None:
    try:
        return unfinished(database)
    except Unavailable:
        return None


def _bucket(victim: Victim) -> S3Objects:
    own, s3 = victim.services.credentials, victim.services.s3
    settings = StorageSettings.model_validate(
        {
            "database_url": victim.services.postgres.url(DATABASE),
            "valkey_url": victim.services.valkey.url(1),
            "s3_endpoint": s3.endpoint,
            "s3_region": s3.region,
            "s3_bucket": BUCKET,
            "s3_access_key": own.s3_access_key,
            "s3_secret_key": own.s3_secret_key,
        }
    )
    return S3Objects.from_settings(settings)


def _show(found: Verdict, load: Load, killer: Killer, seconds: float, peak: int) -> None:
    table = Table("what", "measured", title=f"seed {load.seed}, {os.cpu_count()} cores")
    kills = Counter(
        "a named step" if row.what.startswith("at ") else row.what for row in killer.kills
    )
    times = [seconds for seconds, _ in found.recovery]
    rows = {
        "builds accepted": f"{len(load.accepted)} of {len(load.asked)} asked",
        "answered from the cache": str(found.hits),
        "joined what was in flight": str(found.joins),
        "artifacts published": str(found.artifacts),
        "kills": f"{len(killer.kills)}: " + _counted(kills),
        "attempts": str(found.attempts),
        "of them wasted": f"{found.wasted.total()}: " + _counted(found.wasted),
        "answers that said «try again»": _counted(load.away) or "0",
        "refusals": _counted(load.refused) or "0",
        "lost": str(len(found.lost)),
        "made twice": str(len(found.doubled)),
        "blobs missing or spoilt": str(len(found.missing)),
        "recovery time": _percentiles(times),
        "the slowest": ", ".join(f"{what} {took:.1f} s" for took, what in found.recovery[:-4:-1]),
        "most memory, shared pages counted for each process": f"{peak >> 20} MiB",
        "total time": f"{seconds:.0f} s",
    }
    for name, said in rows.items():
        table.add_row(name, said)
    _console.print(table)


def _counted(rows: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in rows.most_common())


def _percentiles(times: list[float]) -> str:
    if not times:
        return "nothing was left to do after any kill"
    p50, p99 = times[len(times) // 2], times[max(0, -(-99 * len(times) // 100) - 1)]
    return f"P50 {p50:.1f} s, P99 {p99:.1f} s, longest {times[-1]:.1f} s (n = {len(times)})"


if __name__ == "__main__":
    sys.exit(main())
