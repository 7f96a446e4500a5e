"""``python -m localfarm``: up, stop, status, demo, check-migrations."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Annotated

import typer
from pydantic import ValidationError

from enginefarm.errors import FarmError
from localfarm import screen
from localfarm.errors import LocalFarmError
from localfarm.folder import Folder, Running
from localfarm.settings import PREFIX, LocalFarmSettings
from localfarm.stopping import ended_by_signals

STOP_SECONDS = 60.0
_NOT_RUNNING = 3

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__
)


@app.command()
def up() -> None:
    """Keep the farm running in the foreground; Ctrl-C or `stop` ends it."""
    from localfarm.farm import LocalFarm

    settings, folder = _folder()
    farm = LocalFarm(
        folder,
        settings.ready_seconds,
        screen.say,
        settings.policy,
        restarts=settings.restarts,
        fault_dir=settings.fault_dir,
        plugins=settings.plugins,
    )
    with ended_by_signals(), folder.held(), farm.running() as running:
        screen.show_running(running)
        screen.say_how_it_ends("it", folder.path)
        farm.watch()


@app.command()
def stop() -> None:
    """End the farm that runs on this folder, wherever it was started."""
    _, folder = _folder()
    holder = folder.holder()
    if holder is None:
        screen.say(f"no farm runs on {folder.path}")
        return
    os.kill(holder, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while folder.holder() == holder:
        if time.monotonic() > deadline:
            raise LocalFarmError(
                f"The farm (process {holder}) has not ended within {STOP_SECONDS:.0f} s.",
                code="farm_not_stopped",
                fix=f"End it with: kill -9 {holder}",
            )
        time.sleep(0.05)
    screen.say("stopped")


@app.command()
def status() -> None:
    """Show where the running farm is; exit status 3 if none runs."""
    _, folder = _folder()
    running = folder.running()
    if running is None:
        starting = folder.holder() is not None
        screen.say("the farm is starting" if starting else f"no farm runs on {folder.path}")
        raise typer.Exit(_NOT_RUNNING)
    screen.show_running(running)


@app.command()
def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the farm running after it.")] = False,
) -> None:
    """Run the main job on two real models, from submit to a verified engine."""
    from localfarm.farm import LocalFarm

    settings, folder = _folder()
    known = folder.running()
    if known is not None:
        _demonstrate(folder, known)
        return
    farm = LocalFarm(folder, settings.ready_seconds, screen.say)
    with ended_by_signals(), folder.held(), farm.running() as running:
        _demonstrate(folder, running)
        if keep:
            screen.say_how_it_ends("the farm", folder.path)
            farm.watch()


def _demonstrate(folder: Folder, running: Running) -> None:
    from localfarm.demo import Demo

    screen.show_running(running)
    Demo(folder).run()


@app.command("check-migrations")
def check_migrations() -> None:
    """Migrate an empty database of a throwaway server, and compare it with the rows."""
    from alembic.util import CommandError

    from localfarm.services import throwaway_postgres
    from storage import migrate

    with ended_by_signals(), throwaway_postgres() as url:
        migrate.upgrade(url)
        try:
            migrate.check(url)
        except (CommandError, ValueError) as error:
            raise LocalFarmError(
                "The migrations and the rows do not agree.",
                code="migrations_differ",
                why=str(error),
                fix="Write the missing migration in migrations/versions.",
            ) from error
        screen.say("the migrations make exactly the rows")


def _folder() -> tuple[LocalFarmSettings, Folder]:
    try:
        settings = LocalFarmSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise LocalFarmError(
            f"The setting {PREFIX}LOCAL_{str(first['loc'][0]).upper()} cannot be used.",
            code="invalid_setting",
            why=f"{first['msg']}.",
        ) from error
    return settings, Folder(settings.folder.resolve())


def main() -> None:
    """Run the command; an error that the farm knows ends with its sentences and status 1."""
    try:
        app()
    except FarmError as error:
        screen.show_error(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
