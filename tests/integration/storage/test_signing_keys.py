"""The farm's public keys, as deployers learn of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from enginefarm.attestation import PREDICATE_TYPE, STATEMENT_TYPE
from enginefarm.digest import canonical_json
from enginefarm.errors import NotFound, Unavailable, VerificationFailed
from enginefarm.provenance import verify_bundle
from enginefarm.trust_views import TrustKey
from storage import signing
from storage.database import Database
from storage.signing import StatementSigner

pytestmark = pytest.mark.services
BUILDER = "https://farm.test/builders/1"
STATEMENT: dict[str, Any] = {
    "_type": STATEMENT_TYPE,
    "subject": [{"name": "model.plan", "digest": {"sha256": "a" * 64}}],
    "predicateType": PREDICATE_TYPE,
    "predicate": {"buildDefinition": {}, "runDetails": {"builder": {"id": BUILDER}}},
}


def signer_in(folder: Path, builder: str = BUILDER) -> StatementSigner:
    private, public = folder / "signing-key.pem", folder / "signing-key.pub"
    if not private.exists():
        signing.create_key_files(folder)
    return StatementSigner(f"file2:{private}", public.read_text("ascii"), builder)


def test_a_key_is_registered_once_with_what_it_signs_for(
    database: Database, tmp_path: Path
) -> None:
    signer = signer_in(tmp_path)
    for _ in range(2):
        with database.transaction() as session:
            signer.register(session)

    with database.transaction() as session:
        rows = signing.trust_keys(session)

    assert [(row.keyid, row.public_key, row.builders) for row in rows] == [
        (signer.keyid, signer.public_pem, [BUILDER])
    ]
    assert rows[0].revoked_at is None


def test_a_builder_of_a_new_name_is_added_to_the_key_and_the_old_one_stays(
    database: Database, tmp_path: Path
) -> None:
    names = [BUILDER, "https://farm.test/builders/2"]
    for name in names:
        with database.transaction() as session:
            signer_in(tmp_path, name).register(session)

    with database.transaction() as session:
        (row,) = signing.trust_keys(session)

    assert row.builders == names


def test_a_revoked_key_stays_known_and_cannot_be_used_again(
    database: Database, tmp_path: Path
) -> None:
    signer, other = signer_in(tmp_path / "one"), signer_in(tmp_path / "other")
    with database.transaction() as session:
        signer.register(session)
        other.register(session)
        signing.revoke_signing_key(session, signer.keyid)

    with pytest.raises(Unavailable) as caught, database.transaction() as session:
        signer.register(session)
    with database.transaction() as session:
        other.register(session)
        revoked = {row.keyid: row.revoked_at for row in signing.trust_keys(session)}

    assert caught.value.code == "signing_key_revoked"
    assert revoked[signer.keyid] is not None
    assert revoked[other.keyid] is None


def trusted(database: Database) -> list[TrustKey]:
    with database.transaction() as session:
        rows = signing.trust_keys(session)
        return [TrustKey.model_validate(row, from_attributes=True) for row in rows]


def test_what_the_farm_signs_verifies_with_the_keys_it_tells_of_until_one_is_revoked(
    database: Database, tmp_path: Path
) -> None:
    signer = signer_in(tmp_path)
    with database.transaction() as session:
        signer.register(session)
    bundle = signer.sign(STATEMENT)
    verified = verify_bundle(bundle, trusted(database))
    with database.transaction() as session:
        signing.revoke_signing_key(session, signer.keyid)

    with pytest.raises(VerificationFailed) as refused:
        verify_bundle(bundle, trusted(database))

    assert (verified.keyid, verified.builder) == (signer.keyid, BUILDER)
    assert verified.covers(f"sha256:{'a' * 64}")
    assert refused.value.code == "key_revoked"


def test_a_statement_that_was_changed_does_not_verify(database: Database, tmp_path: Path) -> None:
    signer = signer_in(tmp_path)
    with database.transaction() as session:
        signer.register(session)
    bundle = json.loads(signer.sign(STATEMENT))
    other = canonical_json(STATEMENT | {"subject": [{"digest": {"sha256": "b" * 64}}]})
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(other).decode()

    with pytest.raises(VerificationFailed) as refused:
        verify_bundle(canonical_json(bundle), trusted(database))

    assert refused.value.code == "signature_wrong"


def test_a_revocation_keeps_its_first_time(database: Database, tmp_path: Path) -> None:
    signer = signer_in(tmp_path)
    with database.transaction() as session:
        signer.register(session)
    moments = []
    for _ in range(2):
        with database.transaction() as session:
            moments.append(signing.revoke_signing_key(session, signer.keyid).revoked_at)

    assert moments[0] == moments[1] is not None


def test_a_key_that_never_signed_cannot_be_revoked(database: Database) -> None:
    with pytest.raises(NotFound) as caught, database.transaction() as session:
        signing.revoke_signing_key(session, "0" * 64)

    assert caught.value.code == "unknown_key"
