"""The farm's key, and what leaves it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import (  # type: ignore[attr-defined]  # it has no __all__
    SIGNER_FOR_URI_SCHEME,
    CryptoSigner,
    Key,
    Signature,
    Signer,
    SSlibKey,
)

from enginefarm.attestation import PREDICATE_TYPE, STATEMENT_TYPE
from enginefarm.digest import canonical_json
from enginefarm.errors import Conflict, Unavailable
from enginefarm.provenance import verify_bundle
from enginefarm.trust_views import TrustKey
from storage.signing import StatementSigner, create_key_files

BUILDER = "https://farm.test/builders/control/v1"
STATEMENT: dict[str, Any] = {
    "_type": STATEMENT_TYPE,
    "subject": [{"name": "model.plan", "digest": {"sha256": "ab" * 32}}],
    "predicateType": PREDICATE_TYPE,
    "predicate": {
        "buildDefinition": {"externalParameters": {"level": 3, "ünicode": "naïve", "ratio": 0.1}},
        "runDetails": {"builder": {"id": BUILDER}},
    },
}


@pytest.fixture
def key_files(tmp_path: Path) -> tuple[Path, Path]:
    return create_key_files(tmp_path / "signing")


@pytest.fixture
def signer(key_files: tuple[Path, Path]) -> StatementSigner:
    private, public = key_files
    return StatementSigner(f"file2:{private}", public.read_text("ascii"), BUILDER)


@pytest.fixture
def any_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def pem(public: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) -> str:
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


# -- the key


def test_a_private_key_is_readable_by_its_owner_alone(any_umask: None, tmp_path: Path) -> None:
    private, public = create_key_files(tmp_path / "new" / "folder")

    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert sorted(tmp_path.glob("new/folder/*")) == [private, public]
    assert b"PRIVATE" not in public.read_bytes()


def test_both_files_are_halves_of_one_p256_key(key_files: tuple[Path, Path]) -> None:
    private, public = (path.read_bytes() for path in key_files)
    key = load_pem_private_key(private, None)

    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    assert key.public_key() == load_pem_public_key(public)


def test_a_key_is_never_overwritten(key_files: tuple[Path, Path]) -> None:
    before = [path.read_bytes() for path in key_files]

    with pytest.raises(Conflict) as caught:
        create_key_files(key_files[0].parent)

    assert caught.value.code == "signing_key_exists"
    assert [path.read_bytes() for path in key_files] == before
    assert sorted(key_files[0].parent.iterdir()) == sorted(key_files)


def test_a_keyid_is_the_sha256_of_the_public_key_in_der(
    signer: StatementSigner, key_files: tuple[Path, Path]
) -> None:
    public = load_pem_public_key(key_files[1].read_bytes())
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    assert signer.keyid == hashlib.sha256(der).hexdigest()


# -- the signature


def test_a_bundle_is_what_deployers_verify(signer: StatementSigner) -> None:
    trusted = TrustKey(
        keyid=signer.keyid,
        public_key=signer.public_pem,
        builders=[BUILDER],
        not_before=datetime(2020, 1, 1, tzinfo=UTC),
    )

    statement = verify_bundle(signer.sign(STATEMENT), [trusted])

    assert (statement.keyid, statement.builder) == (signer.keyid, BUILDER)
    assert statement.covers("sha256:" + "ab" * 32)


def test_a_bundle_has_one_signature_a_hint_and_no_log_entry(signer: StatementSigner) -> None:
    bundle = json.loads(signer.sign(STATEMENT))

    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["verificationMaterial"] == {
        "publicKey": {"hint": base64.b64encode(bytes.fromhex(signer.keyid)).decode()},
        "tlogEntries": [],
    }
    assert [row["keyid"] for row in bundle["dsseEnvelope"]["signatures"]] == [signer.keyid]
    assert bundle["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"


def test_what_is_signed_is_the_canonical_json_to_the_byte(signer: StatementSigner) -> None:
    bundle = json.loads(signer.sign(STATEMENT))

    assert base64.b64decode(bundle["dsseEnvelope"]["payload"]) == canonical_json(STATEMENT)


def test_the_envelope_alone_is_verified_by_another_implementation(signer: StatementSigner) -> None:
    envelope = Envelope.from_dict(json.loads(signer.sign(STATEMENT))["dsseEnvelope"])
    public = SSlibKey.from_crypto(load_pem_public_key(signer.public_pem.encode()), signer.keyid)

    assert list(envelope.verify([public], 1)) == [signer.keyid]


def test_a_statement_that_is_not_json_is_not_signed(signer: StatementSigner) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        signer.sign({"latency": float("nan")})


# -- a key that is away or wrong


def unreadable(folder: Path) -> tuple[str, str]:
    private, public = create_key_files(folder)
    private.unlink()
    return f"file2:{private}", public.read_text()


def damaged(folder: Path) -> tuple[str, str]:
    private, public = create_key_files(folder)
    private.write_bytes(private.read_bytes()[:60])
    return f"file2:{private}", public.read_text()


def two_keys(folder: Path) -> tuple[str, str]:
    private, _ = create_key_files(folder / "one")
    _, public = create_key_files(folder / "other")
    return f"file2:{private}", public.read_text()


def other_curve(folder: Path) -> tuple[str, str]:
    private, _ = create_key_files(folder)
    return f"file2:{private}", pem(ec.generate_private_key(ec.SECP384R1()).public_key())


def other_kind(folder: Path) -> tuple[str, str]:
    private, _ = create_key_files(folder)
    return f"file2:{private}", pem(ed25519.Ed25519PrivateKey.generate().public_key())


def no_pem(folder: Path) -> tuple[str, str]:
    private, _ = create_key_files(folder)
    return f"file2:{private}", "ssh-ed25519 AAAA"


def no_scheme(folder: Path) -> tuple[str, str]:
    private, public = create_key_files(folder)
    return str(private), public.read_text()


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (unreadable, "signing_key_away"),
        (damaged, "signing_key_away"),
        (two_keys, "signing_key_unfit"),
        (other_curve, "signing_key_unfit"),
        (other_kind, "signing_key_unfit"),
        (no_pem, "signing_key_unfit"),
        (no_scheme, "signing_key_unfit"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_before_anything_is_signed(
    made: Callable[[Path], tuple[str, str]], code: str, tmp_path: Path
) -> None:
    uri, public = made(tmp_path)

    with pytest.raises(Unavailable) as caught:
        StatementSigner(uri, public, BUILDER)

    assert caught.value.code == code


class _RemoteSigner(Signer):
    """A key service: it opens well, and what it does later is its own affair."""

    def __init__(self, public_key: Key, sign: Callable[[bytes], Signature]) -> None:
        self._public_key = public_key
        self._how = sign

    @property
    def public_key(self) -> Key:
        return self._public_key

    def sign(self, payload: bytes) -> Signature:
        return self._how(payload)


def remote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sign: Callable[[bytes], Signature]
) -> StatementSigner:
    class Opened(_RemoteSigner):
        @classmethod
        def from_priv_key_uri(cls, _uri: str, key: Key, _secrets: object = None) -> Signer:
            return cls(key, sign)

    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, "remote", Opened)
    _, public = create_key_files(tmp_path)
    return StatementSigner("remote:key", public.read_text(), BUILDER)


def test_a_key_service_that_is_away_is_the_farms_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_payload: bytes) -> Signature:
        message = "connection refused"
        raise ConnectionError(message)

    with pytest.raises(Unavailable, match="connection refused") as caught:
        remote(monkeypatch, tmp_path, refuse).sign(STATEMENT)

    assert caught.value.code == "signing_key_away"


def test_a_signature_of_another_key_never_leaves_the_farm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rotated = CryptoSigner.generate_ecdsa()

    with pytest.raises(Unavailable) as caught:
        remote(monkeypatch, tmp_path, rotated.sign).sign(STATEMENT)

    assert caught.value.code == "signing_key_unfit"
