from __future__ import annotations

from datetime import timedelta

import pytest

from enginefarm.errors import NotFound, Unauthenticated
from enginefarm.state import Scope
from storage import access
from storage.database import Database, now


def key_of(database: Database, **fields: object) -> tuple[str, str]:
    """Make a key; return its id and its text."""
    with database.transaction() as session:
        tenant = access.ensure_tenant(session, "acme")
        row, text = access.create_key(session, tenant.id, "ci", [Scope.READ, Scope.SUBMIT])
        for name, value in fields.items():
            setattr(row, name, value)
        return row.id, text


def test_a_key_names_its_tenant_and_its_scopes(database: Database) -> None:
    _, text = key_of(database)
    with database.transaction() as session:
        row = access.authenticate(session, text)
        assert row.tenant_id == access.ensure_tenant(session, "acme").id
        assert set(row.scopes) == {"read", "submit"}
        assert row.last_used_at is not None


def test_only_the_hash_of_the_secret_is_kept(database: Database) -> None:
    _, text = key_of(database)
    secret = text.split("_")[2]
    with database.transaction() as session:
        row = access.authenticate(session, text)
        kept = {column.name: getattr(row, column.name) for column in row.__table__.columns}
    assert row.secret_sha256 == access.sha256(secret)
    assert not any(secret in str(value) for value in kept.values())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"revoked_at": now()}, "key_revoked"),
        ({"expires_at": now() - timedelta(seconds=1)}, "key_expired"),
    ],
)
def test_a_key_that_has_ended_opens_nothing(
    database: Database, fields: dict[str, object], code: str
) -> None:
    _, text = key_of(database, **fields)
    with database.transaction() as session, pytest.raises(Unauthenticated) as refused:
        access.authenticate(session, text)
    assert refused.value.code == code


def test_an_ended_key_with_a_wrong_secret_does_not_tell_that_it_exists(database: Database) -> None:
    key_id, _ = key_of(database, revoked_at=now())
    with database.transaction() as session, pytest.raises(Unauthenticated) as refused:
        access.authenticate(session, f"ef_{key_id}_{'0' * 64}")
    assert refused.value.code == "key_unknown"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text + "0",
        lambda text: text.replace("ef_", "en_"),
        lambda text: text.upper(),
        lambda text: text + "\n",
        lambda _: "",
        lambda _: "ef__",
        lambda text: text.rsplit("_", 1)[0] + "_" + "0" * 64,
    ],
)
def test_a_text_that_is_no_key_is_refused(database: Database, spoil: object) -> None:
    assert callable(spoil)
    _, text = key_of(database)
    with database.transaction() as session, pytest.raises(Unauthenticated) as refused:
        access.authenticate(session, spoil(text))
    assert refused.value.code == "key_unknown"


def test_a_tenant_is_made_once(database: Database) -> None:
    with database.transaction() as session:
        first = access.ensure_tenant(session, "acme").id
        assert access.ensure_tenant(session, "acme").id == first
        assert access.ensure_tenant(session, "rival").id != first


def test_a_key_can_be_revoked_and_stays_revoked_since_the_first_time(database: Database) -> None:
    key_id, _ = key_of(database)
    with database.transaction() as session:
        since = access.revoke_key(session, key_id).revoked_at
    with database.transaction() as session:
        assert access.revoke_key(session, key_id).revoked_at == since
        with pytest.raises(NotFound):
            access.revoke_key(session, "nobody")
