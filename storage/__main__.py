"""``python -m storage``: migrate, make and revoke keys, look after the bucket."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from enginefarm.errors import FarmError
from enginefarm.state import Scope
from storage import access, migrate, signing, tenants, upkeep
from storage.database import Database, Session, now
from storage.models import ApiKey
from storage.objects import S3Objects
from storage.settings import StorageSettings

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]


@app.command("create-key")
def create_key(
    *,
    tenant: Annotated[str, typer.Option(help="Whose key it is; made if new.")],
    name: Annotated[str, typer.Option(help="What it is for.")],
    scope: Annotated[list[Scope], typer.Option(help="Repeat for more than one.")],
    days: Annotated[
        int | None, typer.Option(min=1, help="Days until it expires; absent: never.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an access key and print it, this once."""
    expires_at = now() + timedelta(days=days) if days is not None else None
    with _transaction() as session:
        owner = access.ensure_tenant(session, tenant)
        row, text = access.create_key(session, owner.id, name, scope, expires_at)
        words = _words(row, tenant) | {"key": text}
    typer.echo(json.dumps(words) if as_json else text)


@app.command()
def keys(
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: Json = False,
) -> None:
    """List the access keys, never their secrets."""
    with _transaction() as session:
        rows = [_words(key, owner.name) for key, owner in access.keys_of(session, tenant)]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        state = "revoked" if row["revoked_at"] else f"until {row['expires_at'] or 'revoked'}"
        scopes = ",".join(row["scopes"])
        typer.echo(f"{row['id']}  {row['tenant']}  {row['name']!r}  {scopes}  {state}")


@app.command("revoke-key")
def revoke_key(key_id: str) -> None:
    """End an access key now."""
    with _transaction() as session:
        row = access.revoke_key(session, key_id)
    typer.echo(f"revoked {row.id}")


@app.command("limit-tenant")
def limit_tenant(
    name: str,
    *,
    weight: Annotated[float | None, typer.Option(min=0.01, help="Its share; 1 is usual.")] = None,
    max_running: Annotated[int | None, typer.Option(min=0, help="Jobs; 0: no limit.")] = None,
    max_unfinished: Annotated[int | None, typer.Option(min=0, help="Jobs; 0: no limit.")] = None,
    max_bytes: Annotated[int | None, typer.Option(min=0, help="In all; 0: no limit.")] = None,
) -> None:
    """Set what a tenant may have; what is not named stays as it is."""
    with _transaction() as session:
        row = tenants.named(session, name)
        row.weight = weight or row.weight
        given = {"running": max_running, "unfinished": max_unfinished, "bytes": max_bytes}
        for what, limit in given.items():
            if limit is not None:
                setattr(row, f"max_{what}", limit or None)
        limits = {what: getattr(row, f"max_{what}") for what in given}
        words = ", ".join(f"{what} {limit or 'no limit'}" for what, limit in limits.items())
        typer.echo(f"{row.name}: weight {row.weight:g}, {words}")


@app.command("migrate")
def migrate_() -> None:
    """Bring the database to the newest schema."""
    migrate.upgrade(_settings().database_url.get_secret_value())


@app.command("create-signing-key")
def create_signing_key(folder: Path) -> None:
    """Make a P-256 signing key in a folder; an existing one is never overwritten."""
    private, public = signing.create_key_files(folder)
    typer.echo(f"private key (mode 0600): {private}\npublic key: {public}")


@app.command("revoke-signing-key")
def revoke_signing_key(keyid: str) -> None:
    """Void everything a signing key has signed; deployers learn it from the trust file."""
    with _transaction() as session:
        row = signing.revoke_signing_key(session, keyid)
    typer.echo(f"revoked {row.keyid}; nothing that it signed verifies any more")


@app.command()
def probe() -> None:
    """Make the bucket if it is missing, and see that it and the database serve the farm."""
    objects = S3Objects.from_settings(_settings())
    objects.ensure_bucket()
    objects.probe()
    with _transaction():
        pass
    typer.echo("database and bucket answer")


app.command("retention")(upkeep.retention)
app.command("verify-blobs")(upkeep.verify)


def _settings() -> StorageSettings:
    return StorageSettings()


@contextmanager
def _transaction() -> Iterator[Session]:
    database = Database(_settings().database_url.get_secret_value(), pool_size=1)
    try:
        database.ping()
        with database.transaction() as session:
            yield session
    finally:
        database.dispose()


def _words(key: ApiKey, tenant: str) -> dict[str, Any]:
    moments = {
        name: moment.isoformat() if moment is not None else None
        for name, moment in (
            ("created_at", key.created_at),
            ("expires_at", key.expires_at),
            ("revoked_at", key.revoked_at),
            ("last_used_at", key.last_used_at),
        )
    }
    return {"id": key.id, "tenant": tenant, "name": key.name, "scopes": key.scopes, **moments}


def main() -> None:
    """Run the command; an error that the farm knows ends with its sentences and status 1."""
    try:
        app()
    except ValidationError as error:
        said = (f"ENGINEFARM_{'.'.join(map(str, row['loc'])).upper()}" for row in error.errors())
        typer.echo(f"error: settings are missing or wrong: {', '.join(said)}", err=True)
        sys.exit(2)
    except FarmError as error:
        typer.echo(f"error [{error.code}]: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
