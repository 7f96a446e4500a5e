"""Signing: one in-toto statement, one P-256 signature, one Sigstore bundle v0.3.

The key sits behind a signer URI (``file2:/path``, ``awskms:…``, ``gcpkms:…``); what is signed is
the canonical JSON of the statement, and those very bytes are kept. A signature that the farm's own
public key does not confirm never leaves this module.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import KeyMismatchError
from securesystemslib.signer import (  # type: ignore[attr-defined]  # it has no __all__
    SIGNER_FOR_URI_SCHEME,
    Signer,
    SSlibKey,
)
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from enginefarm.attestation import PAYLOAD_TYPE
from enginefarm.digest import canonical_json
from enginefarm.errors import Conflict, NotFound, Unavailable
from enginefarm.manifest import BUNDLE_TYPE
from storage.database import Session, now
from storage.models import SigningKey

_PRIVATE_MODE = 0o600
_OTHER_HALF = "It is not the other half of the public key."


def create_key_files(folder: Path) -> tuple[Path, Path]:
    """Make a P-256 key pair in ``folder``; return the private and the public file.

    Raises:
        Conflict: there is a key already; one is never overwritten (``signing_key_exists``).
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "signing-key.pem", folder / "signing-key.pub"
    half = private.with_suffix(f".{os.getpid()}.new")
    handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_MODE)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            stream.flush()
            os.fsync(stream.fileno())
        # A link is made whole or not at all, and never over another key.
        private.hardlink_to(half)
    except FileExistsError as error:
        raise Conflict(
            f"There is a signing key in {folder} already.",
            code="signing_key_exists",
            why="What it has signed could not be verified if it were lost.",
            fix="Use it, or name another folder.",
        ) from error
    finally:
        half.unlink()
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


class StatementSigner:
    """Signs statements with the farm's key."""

    def __init__(self, key_uri: str, public_pem: str, builder_id: str) -> None:
        """Open the key behind ``key_uri``; ``builder_id`` is what it may sign for.

        Raises:
            Unavailable: the key is away (``signing_key_away``) or cannot be used
                (``signing_key_unfit``).
        """
        self._public = _read_public(public_pem)
        der = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._spki_sha256 = hashlib.sha256(der).digest()
        self.keyid = self._spki_sha256.hex()
        self.public_pem = public_pem
        self.builder_id = builder_id
        scheme = key_uri.partition(":")[0]
        if scheme not in SIGNER_FOR_URI_SCHEME:
            raise _unfit(f"There is no signer for {scheme!r}.")
        with _key_answering():
            self._signer = Signer.from_priv_key_uri(
                key_uri, SSlibKey.from_crypto(self._public, keyid=self.keyid)
            )

    def sign(self, statement: dict[str, Any]) -> bytes:
        """Return the Sigstore bundle around the signed statement.

        Raises:
            Unavailable: the key is away (``signing_key_away``) or not the one whose public half
                deployers have (``signing_key_unfit``).
        """
        envelope = Envelope(canonical_json(statement), PAYLOAD_TYPE, {})
        with _key_answering():
            signature = envelope.sign(self._signer)
        try:
            self._public.verify(
                bytes.fromhex(signature.signature), envelope.pae(), ec.ECDSA(SHA256())
            )
        except InvalidSignature as error:
            raise _unfit(_OTHER_HALF) from error
        return canonical_json(
            {
                "mediaType": BUNDLE_TYPE,
                "verificationMaterial": {
                    "publicKey": {"hint": base64.b64encode(self._spki_sha256).decode()},
                    "tlogEntries": [],
                },
                "dsseEnvelope": envelope.to_dict(),
            }
        )

    def register(self, session: Session) -> None:
        """Make the public key, and what it signs for, known to deployers.

        Raises:
            Unavailable: the key was revoked (``signing_key_revoked``).
        """
        session.execute(
            insert(SigningKey)
            .values(keyid=self.keyid, public_key=self.public_pem, builders=[self.builder_id])
            .on_conflict_do_nothing()
        )
        row = session.get_one(SigningKey, self.keyid, with_for_update=True, populate_existing=True)
        if row.revoked_at is not None:
            raise Unavailable(
                f"Signing key {self.keyid[:16]} was revoked.",
                code="signing_key_revoked",
                why="Deployers refuse what it signs.",
                fix="Give the control loops another key: python -m storage create-signing-key.",
            )
        if self.builder_id not in row.builders:
            row.builders = [*row.builders, self.builder_id]


def trust_keys(session: Session) -> Sequence[SigningKey]:
    """Return every key the farm has signed with, revoked ones included."""
    return session.scalars(select(SigningKey).order_by(SigningKey.not_before)).all()


def revoke_signing_key(session: Session, keyid: str) -> SigningKey:
    """Void everything a key has signed, for every deployer who asks the farm again.

    Raises:
        NotFound: the farm has no such key (code ``unknown_key``).
    """
    row = session.get(SigningKey, keyid, with_for_update=True)
    if row is None:
        raise NotFound(
            f"There is no signing key {keyid[:80]}.",
            code="unknown_key",
            fix="The trust file names them all, by 64 hexadecimal digits.",
        )
    row.revoked_at = row.revoked_at or now()
    return row


def _read_public(pem: str) -> ec.EllipticCurvePublicKey:
    try:
        public = load_pem_public_key(pem.encode())
    except ValueError as error:
        raise _unfit("The public key is not PEM.") from error
    if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name != "secp256r1":
        raise _unfit("The public key is not of the curve P-256.")
    return public


@contextmanager
def _key_answering() -> Iterator[None]:
    try:
        yield
    except KeyMismatchError as error:
        raise _unfit(_OTHER_HALF) from error
    except Exception as error:  # each kind of signer fails in its own way
        raise Unavailable(
            "The signing key does not answer.",
            code="signing_key_away",
            why=f"{type(error).__name__}: {str(error)[:200]}",
            fix="Publishing goes on as soon as the key can be reached; see to it that it can.",
        ) from error


def _unfit(why: str) -> Unavailable:
    return Unavailable(
        "The signing key cannot be used.",
        code="signing_key_unfit",
        why=why,
        fix="Make one with python -m storage create-signing-key, or correct the settings.",
    )
