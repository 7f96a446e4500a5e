"""``python -m storage``: migrate, make keys, probe the bucket."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from enginefarm.state import Scope
from storage import access, migrate
from storage.database import Database, now
from storage.objects import S3Objects
from storage.settings import StorageSettings
from storage.signing import create_key_files

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


def _settings() -> StorageSettings:
    return StorageSettings()


def _database() -> Database:
    return Database(_settings().database_url.get_secret_value(), pool_size=1)


@app.command("create-key")
def create_key(
    tenant: Annotated[str, typer.Option(help="Whose key it is; made if new.")],
    name: Annotated[str, typer.Option(help="What it is for.")],
    scope: Annotated[list[Scope], typer.Option(help="Repeat for more than one.")],
    days: Annotated[int | None, typer.Option(help="Days until it expires; absent: never.")] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Make an access key and print it, this once."""
    expires_at = now() + timedelta(days=days) if days is not None else None
    with _database().transaction() as session:
        owner = access.ensure_tenant(session, tenant)
        row, text = access.create_key(session, owner.id, name, scope, expires_at)
        words = {"id": row.id, "tenant": tenant, "scopes": row.scopes, "key": text}
    typer.echo(json.dumps(words) if as_json else text)


@app.command("migrate")
def migrate_() -> None:
    """Bring the database to the newest schema."""
    migrate.upgrade(_settings().database_url.get_secret_value())


@app.command("create-signing-key")
def create_signing_key(folder: Path) -> None:
    """Make a P-256 signing key in a folder; an existing one is never overwritten."""
    private, public = create_key_files(folder)
    typer.echo(f"private key (mode 0600): {private}\npublic key: {public}")


@app.command()
def probe() -> None:
    """Write, read and remove one object; make the bucket if it is missing."""
    objects = S3Objects.from_settings(_settings())
    objects.ensure_bucket()
    objects.probe()
    _database().ping()
    typer.echo("database and bucket answer")


if __name__ == "__main__":
    app()
