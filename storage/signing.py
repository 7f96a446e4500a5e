"""Signing: one in-toto statement, one P-256 signature, one Sigstore bundle v0.3.

The key sits behind a signer URI (``file2:/path``, ``awskms:…``, ``hsm:…``); what is signed is the
canonical JSON of the statement, and those very bytes are kept.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.signer import (  # type: ignore[attr-defined]  # it has no __all__
    Signer,
    SSlibKey,
)
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from enginefarm.digest import canonical_json
from enginefarm.manifest import BUNDLE_TYPE
from storage.database import Session
from storage.models import SigningKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_PRIVATE_MODE = 0o600


def create_key_files(folder: Path) -> tuple[Path, Path]:
    """Make a P-256 key pair in ``folder``; return the private and the public file.

    Raises:
        FileExistsError: there is a key already; one is never overwritten.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "signing-key.pem", folder / "signing-key.pub"
    handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_MODE)
    with os.fdopen(handle, "wb") as stream:
        stream.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


class StatementSigner:
    """Signs statements with the farm's key."""

    def __init__(self, key_uri: str, public_pem: str, builder_id: str) -> None:
        """Open the key behind ``key_uri``; ``builder_id`` is what it may sign for."""
        public = load_pem_public_key(public_pem.encode())
        der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._spki_sha256 = hashlib.sha256(der).digest()
        self.keyid = self._spki_sha256.hex()
        self.public_pem = public_pem
        self.builder_id = builder_id
        self._signer = Signer.from_priv_key_uri(
            key_uri,
            SSlibKey.from_crypto(public, keyid=self.keyid),
        )

    def sign(self, statement: dict[str, Any]) -> bytes:
        """Return the Sigstore bundle around the signed statement."""
        envelope = Envelope(canonical_json(statement), PAYLOAD_TYPE, {})
        envelope.sign(self._signer)
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
        """Make the public key known to deployers."""
        session.execute(
            insert(SigningKey)
            .values(keyid=self.keyid, public_key=self.public_pem, builders=[self.builder_id])
            .on_conflict_do_nothing()
        )


def trust_keys(session: Session) -> Sequence[SigningKey]:
    """Return every key the farm has signed with, revoked ones included."""
    return session.scalars(select(SigningKey).order_by(SigningKey.not_before)).all()
