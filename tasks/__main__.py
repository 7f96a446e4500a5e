"""``python -m tasks``: the control loops; ``python -m tasks healthy`` tells whether they live."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from enginefarm import logs
from intake.reader import Reader
from storage.database import Database
from storage.objects import S3Objects
from storage.progress import ProgressStreams
from storage.signing import StatementSigner
from tasks.app import make_app
from tasks.dispatcher import dispatch
from tasks.farm import Farm
from tasks.keeping import Keeper
from tasks.loops import Loop, run
from tasks.publish import publish_due
from tasks.reconciler import reconcile
from tasks.search.advance import advance_due
from tasks.settings import ControlSettings
from tasks.settle import settle_due
from tasks.sweep import Sweeper
from tasks.tidy_uploads import tidy
from tasks.verify_uploads import verify_due

LOOPS = ("dispatcher", "publisher", "reconciler", "intake")
_ALIVE_WITHIN_S = 60.0


def main() -> int:
    """Run the loops that the command line names; all of them if it names none."""
    parser = argparse.ArgumentParser(prog="python -m tasks", description=__doc__)
    parser.add_argument("loops", nargs="*", metavar="LOOP", help=", ".join([*LOOPS, "healthy"]))
    chosen: list[str] = parser.parse_args().loops or list(LOOPS)
    unknown = set(chosen) - {*LOOPS, "healthy"}
    if unknown:
        parser.error(f"there is no loop {min(unknown)!r}")
    logs.configure()
    settings = logs.settings_or_leave(ControlSettings)
    if "healthy" in chosen:
        return _healthy(settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if settings.health_dir is not None:
        settings.health_dir.mkdir(parents=True, exist_ok=True)
    run(_loops(settings, chosen), stop, settings.health_dir)
    return 0


def _loops(settings: ControlSettings, chosen: list[str]) -> list[Loop]:
    signer = StatementSigner(
        settings.signing_key_uri,
        settings.signing_public_key.read_text("ascii"),
        settings.builder_id,
    )
    farm = Farm(
        database=Database(settings.database_url.get_secret_value()),
        objects=S3Objects.from_settings(settings),
        progress=ProgressStreams(settings.valkey_url.get_secret_value()),
        policy=settings.policy(),
        signer=signer,
    )
    app = make_app(settings.broker_url.get_secret_value(), publisher=True)
    keeper = Keeper(farm, settings.terms())
    loops = {
        "dispatcher": Loop("dispatcher", partial(dispatch, farm, app), 0.1),
        "publisher": Loop("publisher", partial(_settle_and_publish, farm, signer), 0.1),
        "reconciler": Loop("reconciler", partial(_reconcile, farm, Sweeper(farm), keeper), 1.0),
    }
    reader = Reader(settings.reader_limits())
    names = [f"intake-{at}" if at else "intake" for at in range(settings.verifiers)]
    verifiers = [
        Loop(
            name, partial(verify_due, farm, reader, settings.spool_dir, _alive(settings, name)), 0.5
        )
        for name in names
    ]
    return [loops[name] for name in chosen if name in loops] + verifiers * ("intake" in chosen)


def _alive(settings: ControlSettings, name: str) -> Callable[[], None]:
    """Return what a loop calls in the middle of a long turn."""
    folder = settings.health_dir
    return (lambda: None) if folder is None else (folder / f"{name}.alive").touch


def _settle_and_publish(farm: Farm, signer: StatementSigner) -> int:
    return settle_due(farm) + publish_due(farm, signer)


def _reconcile(farm: Farm, sweeper: Sweeper, keeper: Keeper) -> int:
    reconcile(farm)
    keeper.turn()
    sweeper.turn()
    tidy(farm)
    advance_due(farm)  # last: one that cannot be digested keeps nothing else waiting
    return 0


def _healthy(settings: ControlSettings) -> int:
    folder = settings.health_dir
    files = list(folder.glob("*.alive")) if folder is not None else []
    oldest = min((file.stat().st_mtime for file in files), default=0.0)
    return 0 if time.time() - oldest < _ALIVE_WITHIN_S else 1


if __name__ == "__main__":
    sys.exit(main())
