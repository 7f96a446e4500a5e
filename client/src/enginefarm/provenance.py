"""Decide whether a signed statement vouches for an artifact: Sigstore bundle v0.3, DSSE, P-256.

Pure: bytes and trusted keys in, a statement or a refusal out; no network, no files. The rules, in
this order: exactly one signature; by a key we trust, now; over the payload as it stands; only then
is the payload read; it must be an in-toto statement with SLSA provenance, by a builder that the
key may speak for, and its subjects must cover the manifest, the config and every file. Whatever
is not understood is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from enginefarm.attestation import (
    FETCH_AGAIN,
    PAYLOAD_TYPE,
    Envelope,
    Statement,
    bundle_invalid,
    from_base64,
    pre_authentication_encoding,
    read_bundle,
    read_statement,
)
from enginefarm.counted import counted
from enginefarm.digest import Digest, digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.manifest import Manifest, read_manifest
from enginefarm.trust import require_signature, require_usable
from enginefarm.trust_views import TrustKey


@dataclass(frozen=True)
class VerifiedArtifact:
    """A manifest, the statement that vouches for it, and the bundle that holds the statement."""

    digest: Digest
    manifest: Manifest
    statement: Statement
    bundle: bytes
    manifest_bytes: bytes


def verify_bundle(
    bundle: bytes, keys: Sequence[TrustKey], *, at: datetime | None = None
) -> Statement:
    """Return the statement in ``bundle`` if a usable key of ``keys`` has signed it.

    ``at`` is the time at which the key must be usable; absent: now.

    Raises:
        VerificationFailed: codes ``bundle_invalid``, ``signature_count``, ``payload_type_wrong``,
            ``key_unknown``, ``key_not_yet_valid``, ``key_expired``, ``key_revoked``,
            ``trust_invalid``, ``signature_wrong``, ``statement_invalid``, ``predicate_type_wrong``,
            ``builder_unknown``.
    """
    payload, key = signed_payload(bundle, keys, at=at)
    statement = read_statement(payload, key.keyid)
    require_speaks_for(statement.builder, key)
    return statement


def signed_payload(
    bundle: bytes, keys: Sequence[TrustKey], *, at: datetime | None = None
) -> tuple[bytes, TrustKey]:
    """Return what a usable key of ``keys`` has signed, unread, and that key.

    Raises:
        VerificationFailed: those of :func:`verify_bundle` that are not about the payload.
    """
    envelope, hint = read_bundle(bundle)
    _require_form(envelope)
    key = _named_key(keys, hint, envelope.signatures[0].keyid)
    require_usable(key, at or datetime.now(UTC))
    payload = from_base64(envelope.payload, "payload")
    signature = from_base64(envelope.signatures[0].sig, "signature")
    require_signature(key, signature, pre_authentication_encoding(PAYLOAD_TYPE, payload))
    return payload, key


def verify_artifact(
    manifest_bytes: bytes,
    digest: str,
    bundles: Sequence[bytes],
    keys: Sequence[TrustKey],
    *,
    at: datetime | None = None,
) -> VerifiedArtifact:
    """Return the manifest of ``digest`` if one of ``bundles`` vouches for it and all its files.

    Raises:
        VerificationFailed: those of :func:`verify_bundle`, and ``manifest_digest_mismatch``,
            ``manifest_invalid``, ``attestation_missing``, ``subject_missing``. Of several bundles
            that are all refused, the first one's reason is given.
    """
    _require_digest(manifest_bytes, digest)
    manifest = read_manifest(manifest_bytes)
    refusals: list[VerificationFailed] = []
    for bundle in bundles:
        try:
            statement = verify_bundle(bundle, keys, at=at)
            _require_subjects(statement, digest, manifest)
        except VerificationFailed as error:
            refusals.append(error)
        else:
            return VerifiedArtifact(digest, manifest, statement, bundle, manifest_bytes)
    if refusals:
        raise refusals[0]
    raise VerificationFailed(
        f"Nobody has signed for {digest}.",
        code="attestation_missing",
        why="The artifact has no attestation; it may be quarantined.",
        fix="Ask the farm's operator; an unsigned artifact is never installed.",
    )


def _require_form(envelope: Envelope) -> None:
    if len(envelope.signatures) != 1:
        raise VerificationFailed(
            f"The attestation carries {counted(len(envelope.signatures), 'signature')}.",
            code="signature_count",
            why="Exactly one is accepted, so that nobody can add theirs to a good one.",
            fix=FETCH_AGAIN,
        )
    if envelope.payload_type != PAYLOAD_TYPE:
        raise VerificationFailed(
            f"The attestation holds {envelope.payload_type[:80]!r}.",
            code="payload_type_wrong",
            why=f"Only {PAYLOAD_TYPE} is accepted.",
            fix=FETCH_AGAIN,
        )


def _named_key(keys: Sequence[TrustKey], hint: str, keyid: str) -> TrustKey:
    """Return the one key that the hint names, and the signature's keyid if it has one."""
    named = from_base64(hint, "key's hint").hex()
    if keyid not in ("", named):
        raise bundle_invalid("its hint and its signature name different keys")
    found = [key for key in keys if key.keyid == named]
    if len(found) == 1:
        return found[0]
    raise VerificationFailed(
        f"The attestation is signed by key {named[:16] or 'without a name'}, which is not trusted.",
        code="key_unknown",
        why=f"The trust file names {', '.join(key.keyid[:16] for key in keys) or 'no key at all'}.",
        fix="If the farm has a new key, get its trust file through a channel you trust.",
        keyid=named,
    )


def require_speaks_for(builder: str, key: TrustKey) -> None:
    """Refuse a key that may not speak for a builder.

    Raises:
        VerificationFailed: code ``builder_unknown``.
    """
    if builder not in key.builders:
        raise VerificationFailed(
            f"Key {key.keyid[:16]} may not speak for the builder {builder[:120]!r}.",
            code="builder_unknown",
            why=f"It may speak for {', '.join(key.builders) or 'no builder'}.",
            fix="Ask the farm's operator which key belongs to this builder.",
            builder=builder[:512],
        )


def _require_digest(manifest_bytes: bytes, digest: str) -> None:
    actual = digest_of(manifest_bytes)
    if actual != digest:
        raise VerificationFailed(
            f"The manifest is not {digest}.",
            code="manifest_digest_mismatch",
            why=f"Its bytes are {actual}: it was changed or swapped on the way.",
            fix="Fetch it again; if this repeats, do not trust where it came from.",
            expected=digest,
            actual=actual,
        )


def _require_subjects(statement: Statement, digest: str, manifest: Manifest) -> None:
    wanted = {"manifest.json": digest, "config.json": manifest.config.digest}
    wanted |= {layer.name: layer.digest for layer in manifest.layers}
    missing = [name for name, address in wanted.items() if not statement.covers(address)]
    if missing:
        raise VerificationFailed(
            f"The signed statement is not about {missing[0]}.",
            code="subject_missing",
            why=f"It does not name the digest of {', '.join(missing)}.",
            fix="The attestation belongs to another artifact; fetch the one of this digest.",
            missing=list[JsonValue](missing),
        )
