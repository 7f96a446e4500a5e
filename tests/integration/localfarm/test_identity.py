"""The local farm makes its key and its person's key once, and again for another database."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from enginefarm.state import Scope
from enginefarm.trust import read_trust
from localfarm import identity
from localfarm.folder import Folder, read_client_file
from storage import access, signing
from storage.database import Database

pytestmark = pytest.mark.services
URL = "http://127.0.0.1:8080"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


def introduced(folder: Folder, database: Database) -> dict[str, str]:
    """Introduce the farm; return what its person's client is told."""
    identity.introduce(folder, database, URL)
    return read_client_file(folder)


def test_the_person_is_told_where_the_farm_is_with_a_key_that_may_do_all(
    folder: Folder, database: Database
) -> None:
    words = introduced(folder, database)

    with database.transaction() as session:
        key = access.authenticate(session, words["key"])
    assert (words["url"], words["trust"]) == (URL, str(folder.trust_file))
    assert set(key.scopes) == set(Scope)
    assert stat.S_IMODE(folder.client_file.stat().st_mode) == 0o600


def test_the_trust_file_holds_the_key_that_signs(folder: Folder, database: Database) -> None:
    introduced(folder, database)

    uri, public = identity.signing_key(folder)

    (key,) = read_trust(folder.trust_file).keys
    signer = signing.StatementSigner(uri, public, identity.BUILDER_ID)
    assert (key.keyid, key.builders) == (signer.keyid, [identity.BUILDER_ID])


def test_a_second_start_keeps_both_keys(folder: Folder, database: Database) -> None:
    first, made = introduced(folder, database), identity.signing_key(folder)

    assert introduced(folder, database) == first
    assert identity.signing_key(folder) == made


@pytest.mark.parametrize("known", ["revoked", "of another database", "no key at all"])
def test_a_key_that_the_database_refuses_is_replaced(
    folder: Folder, database: Database, known: str
) -> None:
    first = introduced(folder, database)
    if known == "revoked":
        with database.transaction() as session:
            access.revoke_key(session, access.authenticate(session, first["key"]).id)
    else:
        other = "ef_elsewhere" if known == "no key at all" else first["key"][:-4] + "0000"
        folder.client_file.write_text(f'key = "{other}"\n')

    second = introduced(folder, database)

    assert second["key"] != first["key"]
    with database.transaction() as session:
        access.authenticate(session, second["key"])
