"""Decide whether a signed statement vouches for an artifact: Sigstore bundle v0.3, DSSE, P-256.

Pure: bytes and trusted keys in, a statement or a refusal out; no network, no files. The rules, in
this order: exactly one signature; by a key we trust, now; over the payload as it stands; only then
is the payload read; it must be an in-toto statement with SLSA provenance, by a builder that the
key may speak for, and its subjects must cover the manifest, the config and every file. Whatever
is not understood is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from enginefarm.digest import Digest, digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.manifest import BUNDLE_TYPE, Manifest, read_manifest
from enginefarm.trust import require_signature, require_usable
from enginefarm.views import TrustKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
MAX_BUNDLE_BYTES = 4 << 20
_FETCH_AGAIN = "Fetch the attestation again from the farm that built the artifact."


class _Part(BaseModel):
    # Members that later versions of the formats add are not ours to judge.
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, strict=True)


class _PublicKeyHint(_Part):
    hint: str


class _Material(_Part):
    public_key: _PublicKeyHint = Field(alias="publicKey")


class _Signature(_Part):
    sig: str
    keyid: str = ""


class _Envelope(_Part):
    payload: str
    payload_type: str = Field(alias="payloadType")
    signatures: list[_Signature]


class _Bundle(_Part):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"] = Field(alias="mediaType")
    material: _Material = Field(alias="verificationMaterial")
    envelope: _Envelope = Field(alias="dsseEnvelope")


class Sha256(_Part):
    """A digest set; only sha256 is looked at."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Subject(_Part):
    """One thing a statement is about. It is matched by digest; the name is for people."""

    name: str = ""
    digest: Sha256


class _Builder(_Part):
    id: str


class _RunDetails(_Part):
    builder: _Builder
    metadata: dict[str, JsonValue] = {}


class _Predicate(_Part):
    build_definition: dict[str, JsonValue] = Field(alias="buildDefinition")
    run_details: _RunDetails = Field(alias="runDetails")


class _Body(_Part):
    type: str = Field(alias="_type")
    subject: list[Subject] = Field(min_length=1, max_length=1024)
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, JsonValue]


@dataclass(frozen=True)
class Statement:
    """What a trusted key has signed."""

    keyid: str
    builder: str
    subjects: tuple[Subject, ...]
    build_definition: dict[str, JsonValue]
    metadata: dict[str, JsonValue]
    payload: bytes

    def covers(self, digest: str) -> bool:
        """Tell whether the statement is about these bytes."""
        return any(f"sha256:{subject.digest.sha256}" == digest for subject in self.subjects)


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
    envelope, hint = _read_bundle(bundle)
    if len(envelope.signatures) != 1:
        raise VerificationFailed(
            f"The attestation carries {len(envelope.signatures)} signatures.",
            code="signature_count",
            why="Exactly one is accepted, so that nobody can add theirs to a good one.",
            fix=_FETCH_AGAIN,
        )
    if envelope.payload_type != PAYLOAD_TYPE:
        raise VerificationFailed(
            f"The attestation holds {envelope.payload_type[:80]!r}.",
            code="payload_type_wrong",
            why=f"Only {PAYLOAD_TYPE} is accepted.",
            fix=_FETCH_AGAIN,
        )
    key = _named_key(keys, hint, envelope.signatures[0].keyid)
    require_usable(key, at or datetime.now(UTC))
    payload = _from_base64(envelope.payload, "payload")
    signature = _from_base64(envelope.signatures[0].sig, "signature")
    require_signature(key, signature, pre_authentication_encoding(PAYLOAD_TYPE, payload))
    return _read_statement(payload, key)


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


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _read_bundle(data: bytes) -> tuple[_Envelope, str]:
    try:
        if len(data) > MAX_BUNDLE_BYTES:
            message = f"{len(data)} bytes is above {MAX_BUNDLE_BYTES}"
            raise ValueError(message)
        bundle = _Bundle.model_validate(_read_json(data))
    except (ValueError, RecursionError) as error:
        raise _bundle_invalid(_reason(error)) from error
    return bundle.envelope, bundle.material.public_key.hint


def _read_json(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON in which no name is given twice: two readers could see two different things."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) != len(pairs):
            message = "a member is named twice"
            raise ValueError(message)
        return read

    return json.loads(data.decode(), object_pairs_hook=once)


def _named_key(keys: Sequence[TrustKey], hint: str, keyid: str) -> TrustKey:
    """Return the one key that the hint names, and the signature's keyid if it has one."""
    try:
        named = base64.b64decode(hint, validate=True).hex()
    except (binascii.Error, ValueError) as error:
        raise _bundle_invalid("the key's hint is not base64") from error
    if keyid not in ("", named):
        raise _bundle_invalid("its hint and its signature name different keys")
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


def _from_base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bundle_invalid(f"the {what} is not base64") from error


def _read_statement(payload: bytes, key: TrustKey) -> Statement:
    try:
        body = _Body.model_validate(_read_json(payload))
    except (ValueError, RecursionError) as error:
        raise _statement_invalid(_reason(error)) from error
    if body.type != STATEMENT_TYPE:
        raise _statement_invalid(f"its type {body.type[:80]!r} is not {STATEMENT_TYPE}")
    if body.predicate_type != PREDICATE_TYPE:
        raise VerificationFailed(
            f"The signed statement says {body.predicate_type[:80]!r}.",
            code="predicate_type_wrong",
            why=f"Only {PREDICATE_TYPE} says how an artifact was built.",
            fix=_FETCH_AGAIN,
        )
    try:
        predicate = _Predicate.model_validate(body.predicate)
    except ValidationError as error:
        raise _statement_invalid(_reason(error)) from error
    builder = predicate.run_details.builder.id
    if builder not in key.builders:
        raise VerificationFailed(
            f"Key {key.keyid[:16]} may not speak for the builder {builder[:120]!r}.",
            code="builder_unknown",
            why=f"It may speak for {', '.join(key.builders) or 'no builder'}.",
            fix="Ask the farm's operator which key belongs to this builder.",
            builder=builder[:512],
        )
    return Statement(
        keyid=key.keyid,
        builder=builder,
        subjects=tuple(body.subject),
        build_definition=predicate.build_definition,
        metadata=predicate.run_details.metadata,
        payload=payload,
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


def _reason(error: Exception) -> str:
    """Return the first thing that is wrong, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg'].lower()}"
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _bundle_invalid(reason: str) -> VerificationFailed:
    return VerificationFailed(
        "The attestation cannot be used.",
        code="bundle_invalid",
        why=f"It is not a {BUNDLE_TYPE} with a public key: {reason}.",
        fix=_FETCH_AGAIN,
    )


def _statement_invalid(reason: str) -> VerificationFailed:
    return VerificationFailed(
        "The signed statement cannot be used.",
        code="statement_invalid",
        why=f"The signature is good, but {reason}.",
        fix="Report this to the farm's operator: the farm signs something this client cannot read.",
    )
