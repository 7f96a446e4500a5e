"""Tenants and access keys on the real database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from enginefarm.errors import NotFound, Unauthenticated
from enginefarm.state import Scope
from storage import access
from storage import database as clock
from storage.database import Database, now
from storage.models import ApiKey

pytestmark = pytest.mark.services


def made(
    database: Database, *scopes: Scope, tenant: str = "acme", days: int = 0
) -> tuple[str, str]:
    """Return a key's id and text."""
    with database.transaction() as session:
        owner = access.ensure_tenant(session, tenant)
        expires_at = now() + timedelta(days=days) if days else None
        row, text = access.create_key(session, owner.id, "ci", scopes or [Scope.READ], expires_at)
        return row.id, text


def refusal(database: Database, text: str) -> str:
    with pytest.raises(Unauthenticated) as caught, database.transaction() as session:
        access.authenticate(session, text)
    return caught.value.code


def test_a_tenant_is_made_once_whoever_asks(database: Database) -> None:
    def ask(_: int) -> str:
        with database.transaction() as session:
            return access.ensure_tenant(session, "acme").id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(ask, range(16)))

    assert len(ids) == 1


def test_a_key_opens_what_it_was_made_for(database: Database) -> None:
    key_id, text = made(database, Scope.SUBMIT, Scope.READ, Scope.READ)

    with database.transaction() as session:
        row = access.authenticate(session, text)
        owner = access.ensure_tenant(session, "acme")

    assert (row.id, row.tenant_id, row.scopes) == (key_id, owner.id, ["read", "submit"])
    assert text.startswith(f"ef_{key_id}_")


def test_of_a_secret_only_the_sha256_is_kept(database: Database) -> None:
    key_id, text = made(database)
    secret = text.rsplit("_", 1)[1]

    with database.transaction() as session:
        row = session.get_one(ApiKey, key_id)
        kept = {column.name: getattr(row, column.name) for column in ApiKey.__table__.columns}

    assert kept["secret_sha256"] == hashlib.sha256(secret.encode()).digest()
    assert secret not in str(kept)


def test_another_secret_does_not_open_a_key(database: Database) -> None:
    (one, _), (_, other) = made(database), made(database)

    mixed = f"ef_{one}_{other.rsplit('_', 1)[1]}"

    assert refusal(database, mixed) == "key_unknown"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ef",
        "ef__",
        "ef_" + "0" * 26 + "_" + "0" * 64,
        "EF_" + "0" * 26 + "_" + "0" * 64,
        "ef_" + "0" * 26 + "_" + "0" * 63 + "\n",
        "ef_\0_" + "0" * 64,
        "ef_" + "٣" * 26 + "_" + "0" * 64,
        "ef_\ud800_x",
        "Bearer ef_a_b",
        "ef_" + "0" * 100_000,
    ],
    ids=lambda text: repr(text)[:20],
)
def test_what_is_no_key_is_refused_like_an_unknown_one(database: Database, text: str) -> None:
    assert refusal(database, text) == "key_unknown"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text + "0",
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text.replace("ef_", "en_", 1),
        lambda text: text.upper(),
    ],
)
def test_a_key_that_was_copied_badly_is_refused(
    database: Database, spoil: Callable[[str], str]
) -> None:
    _, text = made(database)

    assert refusal(database, spoil(text)) == "key_unknown"


def test_a_key_ends_when_it_expires(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = made(database, days=30)
    with database.transaction() as session:
        access.authenticate(session, text)

    monkeypatch.setattr(access, "now", lambda: clock.now() + timedelta(days=30))

    assert refusal(database, text) == "key_expired"


def test_a_revoked_key_opens_nothing_and_stays_revoked_from_the_first_time(
    database: Database,
) -> None:
    key_id, text = made(database)
    moments = []
    for _ in range(2):
        with database.transaction() as session:
            moments.append(access.revoke_key(session, key_id).revoked_at)

    assert refusal(database, text) == "key_revoked"
    assert moments[0] == moments[1] is not None


def test_only_who_has_the_secret_learns_that_a_key_was_revoked(database: Database) -> None:
    key_id, _ = made(database)
    with database.transaction() as session:
        access.revoke_key(session, key_id)

    assert refusal(database, f"ef_{key_id}_{'0' * 64}") == "key_unknown"


def test_a_key_that_is_not_there_cannot_be_revoked(database: Database) -> None:
    with pytest.raises(NotFound) as caught, database.transaction() as session:
        access.revoke_key(session, "nothing")

    assert caught.value.code == "unknown_key"


def test_the_last_use_is_written_at_most_once_a_minute(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = made(database)
    start = now()
    seen = []
    for seconds in (0, 59, 61):
        moment = start + timedelta(seconds=seconds)
        monkeypatch.setattr(access, "now", lambda moment=moment: moment)
        with database.transaction() as session:
            seen.append(access.authenticate(session, text).last_used_at)

    assert seen == [start, start, start + timedelta(seconds=61)]


def test_keys_are_listed_with_their_tenants(database: Database) -> None:
    (one, _), (two, _) = made(database), made(database, tenant="umbrella")

    with database.transaction() as session:
        every = [(key.id, owner.name) for key, owner in access.keys_of(session)]
        some = [key.id for key, _ in access.keys_of(session, "umbrella")]

    assert sorted(every) == sorted([(one, "acme"), (two, "umbrella")])
    assert some == [two]
