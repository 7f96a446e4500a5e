"""What the farm signs verifies, and its key files stay private and are never overwritten."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from enginefarm.digest import canonical_json
from enginefarm.errors import Conflict, NotFound, Unavailable, VerificationFailed
from enginefarm.provenance import verify_bundle
from enginefarm.views import TrustKey
from storage import signing
from storage.database import Database
from storage.signing import StatementSigner

BUILDER = "https://farm.test/control"


def statement(builder: str = BUILDER) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "model.onnx", "digest": {"sha256": "a" * 64}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": {}, "runDetails": {"builder": {"id": builder}}},
    }


@pytest.fixture
def signer(tmp_path: Path) -> StatementSigner:
    return made_in(tmp_path / "keys")


def made_in(folder: Path) -> StatementSigner:
    private, public = signing.create_key_files(folder)
    return StatementSigner(f"file2:{private}", public.read_text("ascii"), BUILDER)


def trusted(database: Database, signer: StatementSigner) -> list[TrustKey]:
    with database.transaction() as session:
        signer.register(session)
    with database.transaction() as session:
        rows = signing.trust_keys(session)
        return [TrustKey.model_validate(row, from_attributes=True) for row in rows]


def test_what_the_farm_signs_a_deployer_can_verify(
    database: Database, signer: StatementSigner
) -> None:
    verified = verify_bundle(signer.sign(statement()), trusted(database, signer))
    assert (verified.keyid, verified.builder) == (signer.keyid, BUILDER)
    assert verified.covers("sha256:" + "a" * 64)


def test_the_canonical_bytes_of_the_statement_are_what_is_signed(signer: StatementSigner) -> None:
    bundle = json.loads(signer.sign(statement()))
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    assert payload == canonical_json(statement())


def test_a_statement_that_was_changed_does_not_verify(
    database: Database, signer: StatementSigner
) -> None:
    bundle = json.loads(signer.sign(statement()))
    other = canonical_json(statement("https://elsewhere.test"))
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(other).decode()
    with pytest.raises(VerificationFailed) as refused:
        verify_bundle(canonical_json(bundle), trusted(database, signer))
    assert refused.value.code == "signature_wrong"


def test_a_revoked_key_signs_for_nobody(database: Database, signer: StatementSigner) -> None:
    bundle = signer.sign(statement())
    trusted(database, signer)
    with database.transaction() as session:
        signing.revoke_signing_key(session, signer.keyid)
        keys = [
            TrustKey.model_validate(row, from_attributes=True)
            for row in signing.trust_keys(session)
        ]
    with pytest.raises(VerificationFailed) as refused:
        verify_bundle(bundle, keys)
    assert refused.value.code == "key_revoked"
    with database.transaction() as session, pytest.raises(Unavailable) as away:
        signer.register(session)
    assert away.value.code == "signing_key_revoked"


def test_a_key_that_the_farm_never_had_cannot_be_revoked(database: Database) -> None:
    with database.transaction() as session, pytest.raises(NotFound):
        signing.revoke_signing_key(session, "0" * 64)


def test_the_private_key_is_its_owners_alone(tmp_path: Path) -> None:
    private, public = signing.create_key_files(tmp_path)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert b"PRIVATE" not in public.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == [private.name, public.name]


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    files = signing.create_key_files(tmp_path)
    before = [file.read_bytes() for file in files]
    with pytest.raises(Conflict) as refused:
        signing.create_key_files(tmp_path)
    assert refused.value.code == "signing_key_exists"
    assert [file.read_bytes() for file in files] == before
    assert len(list(tmp_path.iterdir())) == len(files)


def test_a_private_key_beside_another_public_key_signs_nothing(tmp_path: Path) -> None:
    private, _ = signing.create_key_files(tmp_path / "a")
    _, public = signing.create_key_files(tmp_path / "b")
    with pytest.raises(Unavailable) as refused:
        StatementSigner(f"file2:{private}", public.read_text("ascii"), BUILDER).sign(statement())
    assert refused.value.code == "signing_key_unfit"


def test_a_key_that_is_away_is_said_to_be_away(tmp_path: Path) -> None:
    _, public = signing.create_key_files(tmp_path)
    with pytest.raises(Unavailable) as refused:
        StatementSigner(f"file2:{tmp_path / 'gone'}", public.read_text("ascii"), BUILDER)
    assert refused.value.code == "signing_key_away"
