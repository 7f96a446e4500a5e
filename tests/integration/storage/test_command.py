"""``python -m storage`` as an operator uses it."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from sqlalchemy import select, update

from enginefarm.digest import digest_of
from enginefarm.errors import Unauthenticated
from storage import access, blobs, catalogue, signing
from storage.__main__ import main
from storage.database import Database, now
from storage.models import Blob, Model
from storage.objects import S3Objects
from tests.contract.stores import overwrite

pytestmark = pytest.mark.services
SETTINGS = {"VALKEY_URL": "redis://none"}


class Said(Protocol):
    def __call__(self, *words: str, status: int = 0) -> str: ...


@pytest.fixture
def command(
    database: Database,
    postgres_url: str,
    s3: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    """Return a way to run the command and get what it said, on either stream."""
    words = {"database_url": postgres_url, "valkey_url": "redis://none"} | s3
    for name, value in words.items():
        monkeypatch.setenv(f"ENGINEFARM_{name.upper()}", value)

    def run(*words: str, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["python -m storage", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == status, err
        return out + err

    return run


def create(command: Said, *more: str) -> dict[str, Any]:
    words = ("create-key", "--tenant", "acme", "--name", "ci", "--scope", "submit", "--json")
    made: dict[str, Any] = json.loads(command(*words, *more))
    return made


def test_a_new_key_is_printed_alone_and_works(command: Said, database: Database) -> None:
    words = ("--tenant", "acme", "--name", "ci", "--scope", "submit", "--scope", "read")
    text = command("create-key", *words).strip()

    with database.transaction() as session:
        row = access.authenticate(session, text)

    assert (row.name, row.scopes, row.expires_at) == ("ci", ["read", "submit"], None)


def test_a_new_key_as_json_says_what_it_is(command: Said) -> None:
    made = create(command, "--days", "30")

    assert made["key"].startswith(f"ef_{made['id']}_")
    assert (made["tenant"], made["scopes"]) == ("acme", ["submit"])
    assert now() + timedelta(days=29) < now().fromisoformat(made["expires_at"])


@pytest.mark.parametrize(
    "words",
    [
        ("--tenant", "acme", "--name", "ci"),
        ("--tenant", "acme", "--name", "ci", "--scope", "everything"),
        ("--tenant", "acme", "--name", "ci", "--scope", "read", "--days", "0"),
    ],
)
def test_a_key_without_sense_is_not_made(command: Said, words: tuple[str, ...]) -> None:
    command("create-key", *words, status=2)

    assert json.loads(command("keys", "--json")) == []


def test_the_list_of_keys_holds_no_secret(command: Said) -> None:
    made = create(command)
    secret = made["key"].rsplit("_", 1)[1]

    listed = command("keys") + command("keys", "--tenant", "acme", "--json")

    assert made["id"] in listed
    assert secret not in listed


def test_a_revoked_key_is_refused_and_shown_as_revoked(command: Said, database: Database) -> None:
    made = create(command)

    command("revoke-key", made["id"])

    assert "revoked" in command("keys")
    with pytest.raises(Unauthenticated), database.transaction() as session:
        access.authenticate(session, made["key"])


def test_an_unknown_key_is_an_error_with_a_way_out(command: Said) -> None:
    said = command("revoke-key", "nothing", status=1)

    assert said.startswith("error [unknown_key]: There is no access key nothing.")
    assert "python -m storage keys" in said


def test_a_signing_key_is_made_once(command: Said, tmp_path: Path) -> None:
    said = command("create-signing-key", str(tmp_path))
    again = command("create-signing-key", str(tmp_path), status=1)

    assert str(tmp_path / "signing-key.pub") in said
    assert "PRIVATE" not in said
    assert "[signing_key_exists]" in again


def test_a_signing_key_is_revoked(command: Said, database: Database, tmp_path: Path) -> None:
    private, public = signing.create_key_files(tmp_path)
    signer = signing.StatementSigner(f"file2:{private}", public.read_text(), "https://farm.test/b")
    with database.transaction() as session:
        signer.register(session)

    command("revoke-signing-key", signer.keyid)

    with database.transaction() as session:
        (row,) = signing.trust_keys(session)
    assert row.revoked_at is not None


def test_migrate_and_probe_answer(command: Said) -> None:
    command("migrate")

    assert command("probe") == "database and bucket answer\n"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("S3_ENDPOINT", "http://127.0.0.1:1", "bucket_away"),
        ("DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none", "database_away"),
    ],
)
def test_a_part_that_is_away_is_named(
    command: Said, monkeypatch: pytest.MonkeyPatch, name: str, value: str, code: str
) -> None:
    monkeypatch.setenv(f"ENGINEFARM_{name}", value)

    said = command("probe", status=1)

    assert said.startswith(f"error [{code}]: ")
    assert len(said.splitlines()) == 1


def test_missing_settings_are_named_and_no_value_is_shown(
    command: Said, monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]
) -> None:
    monkeypatch.delenv("ENGINEFARM_DATABASE_URL")

    said = command("keys", status=2)

    assert said == "error: settings are missing or wrong: ENGINEFARM_DATABASE_URL\n"
    assert s3["s3_secret_key"] not in said


def kept(database: Database, objects: S3Objects, *contents: bytes) -> list[str]:
    """Put bytes in the bucket and their rows in the database; return their digests in order."""
    with database.transaction() as session:
        owner = access.ensure_tenant(session, "acme")
        for data in contents:
            objects.put_bytes(digest_of(data), data, "application/octet-stream")
            blobs.record(session, owner.id, digest_of(data), len(data), "application/octet-stream")
    return sorted(digest_of(data) for data in contents)


def lost(database: Database) -> set[str]:
    with database.transaction() as session:
        return set(session.scalars(select(Blob.digest).where(Blob.lost_at.is_not(None))))


def test_verify_blobs_names_what_the_bucket_lacks_and_marks_it(
    command: Said, database: Database, objects: S3Objects
) -> None:
    objects.ensure_bucket()
    digests = kept(database, objects, *(b"kept %d" % n for n in range(12)))
    objects.remove(digests[3])
    overwrite(objects, digests[5], b"shorter")
    overwrite(objects, digests[7], b"kept ?" + b"?" * (len(b"kept 10") - 6))

    said = command("verify-blobs", status=1)

    assert digests[3] in said
    assert digests[5] in said
    assert "12 blobs looked at" in said
    assert {digests[3], digests[5]} <= lost(database)


def test_verify_blobs_deep_reads_the_bytes(
    command: Said, database: Database, objects: S3Objects
) -> None:
    objects.ensure_bucket()
    (digest,) = kept(database, objects, b"as they were")
    overwrite(objects, digest, b"as they are!")

    command("verify-blobs", "--deep", status=1)

    assert lost(database) == {digest}


def test_verify_blobs_goes_on_where_it_stopped_and_sees_what_was_restored(
    command: Said, database: Database, objects: S3Objects
) -> None:
    objects.ensure_bucket()
    contents = [b"part %d" % n for n in range(5)]
    digests = kept(database, objects, *contents)
    objects.remove(digests[4])

    first = json.loads(command("verify-blobs", "--limit", "3", "--json"))
    on = first["go_on_after"]
    second = json.loads(command("verify-blobs", "--after", on, "--json", status=1))
    (data,) = (data for data in contents if digest_of(data) == digests[4])
    objects.put_bytes(digests[4], data, "application/octet-stream")
    third = json.loads(command("verify-blobs", "--json"))

    assert (first["seen"], on, first["lost"]) == (3, digests[2], [])
    assert (second["seen"], [row["digest"] for row in second["lost"]]) == (2, [digests[4]])
    assert (third["again"], third["lost"], lost(database)) == (1, [], set())


def test_retention_shows_what_would_go_and_removes_nothing(
    command: Said, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEFARM_MODELS_KEPT_DAYS", "30")
    with database.transaction() as session:
        owner = access.ensure_tenant(session, "acme")
        catalogue.add_model(
            session, owner.id, digest=digest_of(b"m"), name="m", size=9, files=[], interface={}
        )
        session.flush()
        session.execute(update(Model).values(used_at=now() - timedelta(days=31)))

    told = json.loads(command("retention", "--json"))
    table = command("retention")

    assert told["models"]["days"] == 30
    assert (told["models"]["due"], told["models"]["bytes"], told["datasets"]["due"]) == (1, 9, 0)
    assert "ENGINEFARM_MODELS_KEPT_DAYS" in table
    assert "for ever" in table
    with database.transaction() as session:
        assert len(session.scalars(select(Model)).all()) == 1
