"""The keys a deployer trusts: read a trust file, and hold one signature against one key.

A key is named by the hex sha256 of its SubjectPublicKeyInfo; a trust file whose names do not fit
its keys is refused whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)
from pydantic import ValidationError

from enginefarm.errors import VerificationFailed
from enginefarm.trust_views import TrustKey, TrustView

MAX_TRUST_BYTES = 1 << 20
"""A thousand keys fit; a device or a pipe that never ends does not."""


def read_trust(path: Path) -> TrustView:
    """Read a trust file and check that its names fit its keys.

    Raises:
        VerificationFailed: codes ``trust_missing``, ``trust_invalid``; the latter also when it is
            above :data:`MAX_TRUST_BYTES`, of which no more is read.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_TRUST_BYTES + 1)
    except OSError as error:
        raise VerificationFailed(
            f"The trust file {path} cannot be read.",
            code="trust_missing",
            why=f"{error.strerror}.",
            fix="Name the right file with --trust, or save one with: enginefarm trust --save FILE",
        ) from error
    if len(data) > MAX_TRUST_BYTES:
        raise _trust_invalid(str(path), f"it is longer than {MAX_TRUST_BYTES} bytes")
    return parse_trust(data, str(path))


def parse_trust(data: bytes, origin: str) -> TrustView:
    """Read a trust document; ``origin`` is named when it is refused.

    Raises:
        VerificationFailed: code ``trust_invalid``.
    """
    try:
        view = TrustView.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _trust_invalid(origin, f"{where or 'document'}: {first['msg']}") from error
    require_sound(view.keys, origin)
    return view


def require_sound(keys: Sequence[TrustKey], origin: str) -> None:
    """Refuse keys that are not P-256 or not what their names say, and names given twice.

    Raises:
        VerificationFailed: code ``trust_invalid``.
    """
    if len({key.keyid for key in keys}) != len(keys):
        raise _trust_invalid(origin, "a key is named twice")
    for key in keys:
        load_key(key, origin)


def load_key(key: TrustKey, origin: str = "the trust file") -> ec.EllipticCurvePublicKey:
    """Return the public key, if it is the P-256 key that its keyid names.

    Raises:
        VerificationFailed: code ``trust_invalid``.
    """
    try:
        loaded = load_pem_public_key(key.public_key.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _trust_invalid(origin, f"key {key.keyid[:16]} is not a PEM public key") from error
    if not isinstance(loaded, ec.EllipticCurvePublicKey) or not isinstance(
        loaded.curve, ec.SECP256R1
    ):
        raise _trust_invalid(origin, f"key {key.keyid[:16]} is not ECDSA P-256")
    der = loaded.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if hashlib.sha256(der).hexdigest() != key.keyid:
        raise _trust_invalid(origin, f"key {key.keyid[:16]} is not the key that this names")
    return loaded


def require_usable(key: TrustKey, at: datetime) -> None:
    """Refuse a key that is revoked, or outside the time for which it was made.

    When something was signed is only claimed, so a revoked or expired key is refused whatever the
    statement says of its own time.

    Raises:
        VerificationFailed: codes ``key_revoked``, ``key_expired``, ``key_not_yet_valid``.
    """
    name = key.keyid[:16]
    if key.revoked_at is not None:
        raise VerificationFailed(
            f"Key {name} is revoked.",
            code="key_revoked",
            why=f"It was revoked at {_aware(key.revoked_at).isoformat()}.",
            fix="Ask the farm for an artifact that is signed by a current key.",
            keyid=key.keyid,
        )
    if _aware(at) < _aware(key.not_before):
        raise VerificationFailed(
            f"Key {name} is not valid yet.",
            code="key_not_yet_valid",
            why=f"It is valid from {_aware(key.not_before).isoformat()}.",
            fix="Check this machine's clock.",
            keyid=key.keyid,
        )
    if key.not_after is not None and _aware(at) > _aware(key.not_after):
        raise VerificationFailed(
            f"Key {name} has expired.",
            code="key_expired",
            why=f"It was valid until {_aware(key.not_after).isoformat()}.",
            fix="Ask the farm for an artifact that is signed by a current key.",
            keyid=key.keyid,
        )


def require_signature(key: TrustKey, signature: bytes, message: bytes) -> None:
    """Refuse a signature that this key did not make over this message.

    Raises:
        VerificationFailed: codes ``signature_wrong``, ``trust_invalid``.
    """
    try:
        load_key(key).verify(signature, message, ec.ECDSA(SHA256()))
    except InvalidSignature as error:
        raise VerificationFailed(
            f"The signature is not by key {key.keyid[:16]} over this statement.",
            code="signature_wrong",
            why="The statement was changed after it was signed, or another key signed it.",
            fix="Do not use the artifact; fetch it again from the farm that built it.",
            keyid=key.keyid,
        ) from error


def _aware(time: datetime) -> datetime:
    """Return a time with its zone; one that has none is UTC, as everywhere in the API."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _trust_invalid(origin: str, reason: str) -> VerificationFailed:
    return VerificationFailed(
        f"{origin} cannot be used as a list of trusted keys.",
        code="trust_invalid",
        why=f"{reason}.",
        fix="Get the farm's trust file again through a channel you trust.",
    )
