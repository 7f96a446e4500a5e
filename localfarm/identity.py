"""Who the local farm is and who may use it: its signing key, one tenant, one access key.

Made the first time, kept with the data, written to where ``enginefarm`` looks for them. Storage
is imported late: the services start meanwhile.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from enginefarm.errors import Unauthenticated
from enginefarm.state import Scope
from enginefarm.trust_views import TrustKey, TrustView
from localfarm.credentials import write_private
from localfarm.folder import Folder, read_client_file

if TYPE_CHECKING:
    from storage.database import Database

TENANT = "local"
BUILDER_ID = "https://enginefarm.invalid/local"


def signing_key(folder: Folder) -> tuple[str, str]:
    """Return the farm's signer URI and public key in PEM, made the first time."""
    private = folder.private("signing") / "signing-key.pem"
    public = private.with_suffix(".pub")
    if not private.exists():
        from storage import signing

        signing.create_key_files(private.parent)
    return f"file2:{private}", public.read_text("ascii")


def introduce(folder: Folder, database: Database, url: str) -> None:
    """Make the farm's key known and see to it that the person's key works."""
    from storage import signing

    uri, public = signing_key(folder)
    signer = signing.StatementSigner(uri, public, BUILDER_ID)
    with database.transaction() as session:
        signer.register(session)
        keys = signing.trust_keys(session)
        view = TrustView(keys=[TrustKey.model_validate(row, from_attributes=True) for row in keys])
    folder.trust_file.write_text(view.model_dump_json(indent=1), "utf-8")
    words = {"url": url, "key": _access_key(folder, database), "trust": str(folder.trust_file)}
    # A JSON string is a TOML basic string.
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in words.items())
    write_private(folder.client_file, "".join(lines))


def _access_key(folder: Folder, database: Database) -> str:
    from storage import access

    if folder.client_file.exists():
        known = read_client_file(folder)["key"]
        # One that is refused is of a database that is gone: make another.
        with suppress(Unauthenticated), database.transaction() as session:
            access.authenticate(session, known)
            return known
    with database.transaction() as session:
        tenant = access.ensure_tenant(session, TENANT)
        return access.create_key(session, tenant.id, "local farm", list(Scope))[1]
