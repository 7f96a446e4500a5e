"""Read an attestation: a Sigstore bundle v0.3, its DSSE envelope, and the in-toto statement in it.

Pure, and without trust: what is read here says nothing until :mod:`enginefarm.provenance` has held
the signature against a trusted key. Members that later versions of the formats add are read over;
whatever else is not understood is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from enginefarm.errors import VerificationFailed
from enginefarm.manifest import BUNDLE_TYPE

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
MAX_BUNDLE_BYTES = 4 << 20
FETCH_AGAIN = "Fetch the attestation again from the farm that built the artifact."


class _Part(BaseModel):
    # Members that later versions of the formats add are not ours to judge.
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, strict=True)


class _PublicKeyHint(_Part):
    hint: str


class _Material(_Part):
    public_key: _PublicKeyHint = Field(alias="publicKey")


class Signature(_Part):
    """A signature in base64, and the key that it says made it."""

    sig: str
    keyid: str = ""


class Envelope(_Part):
    """A DSSE envelope: a payload in base64, its type, and who signed both."""

    payload: str
    payload_type: str = Field(alias="payloadType")
    signatures: list[Signature]


class _Bundle(_Part):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"] = Field(alias="mediaType")
    material: _Material = Field(alias="verificationMaterial")
    envelope: Envelope = Field(alias="dsseEnvelope")


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


class Body(_Part):
    """An in-toto statement, whatever it states."""

    type: str = Field(alias="_type")
    subject: list[Subject] = Field(min_length=1, max_length=1024)
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, JsonValue]


@dataclass(frozen=True)
class Statement:
    """What the key ``keyid`` has signed."""

    keyid: str
    builder: str
    subjects: tuple[Subject, ...]
    build_definition: dict[str, JsonValue]
    metadata: dict[str, JsonValue]
    payload: bytes

    def covers(self, digest: str) -> bool:
        """Tell whether the statement is about these bytes."""
        return any(f"sha256:{subject.digest.sha256}" == digest for subject in self.subjects)


def read_bundle(data: bytes) -> tuple[Envelope, str]:
    """Return a bundle's envelope, and the hint at the key that is meant to have signed it.

    Raises:
        VerificationFailed: code ``bundle_invalid``.
    """
    try:
        if len(data) > MAX_BUNDLE_BYTES:
            message = f"{len(data)} bytes is above {MAX_BUNDLE_BYTES}"
            raise ValueError(message)
        bundle = _Bundle.model_validate(_read_json(data))
    except (ValueError, RecursionError) as error:
        raise bundle_invalid(_reason(error)) from error
    return bundle.envelope, bundle.material.public_key.hint


def read_body(payload: bytes) -> Body:
    """Return the in-toto statement in a payload.

    Raises:
        VerificationFailed: code ``statement_invalid``.
    """
    try:
        body = Body.model_validate(_read_json(payload))
    except (ValueError, RecursionError) as error:
        raise _statement_invalid(_reason(error)) from error
    if body.type != STATEMENT_TYPE:
        raise _statement_invalid(f"its type {body.type[:80]!r} is not {STATEMENT_TYPE}")
    return body


def read_statement(payload: bytes, keyid: str) -> Statement:
    """Return the statement in a payload that the key ``keyid`` has signed.

    Raises:
        VerificationFailed: codes ``statement_invalid``, ``predicate_type_wrong``.
    """
    body = read_body(payload)
    if body.predicate_type != PREDICATE_TYPE:
        raise VerificationFailed(
            f"The signed statement says {body.predicate_type[:80]!r}.",
            code="predicate_type_wrong",
            why=f"Only {PREDICATE_TYPE} says how an artifact was built.",
            fix=FETCH_AGAIN,
        )
    try:
        predicate = _Predicate.model_validate(body.predicate)
    except ValidationError as error:
        raise _statement_invalid(_reason(error)) from error
    return Statement(
        keyid=keyid,
        builder=predicate.run_details.builder.id,
        subjects=tuple(body.subject),
        build_definition=predicate.build_definition,
        metadata=predicate.run_details.metadata,
        payload=payload,
    )


def from_base64(text: str, what: str) -> bytes:
    """Return the bytes of a member; ``what`` names it when it is refused.

    Raises:
        VerificationFailed: code ``bundle_invalid``.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise bundle_invalid(f"the {what} is not base64") from error


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def bundle_invalid(reason: str) -> VerificationFailed:
    """Return the refusal of a bundle; ``reason`` is the end of a sentence."""
    return VerificationFailed(
        "The attestation cannot be used.",
        code="bundle_invalid",
        why=f"It is not a {BUNDLE_TYPE} with a public key: {reason}.",
        fix=FETCH_AGAIN,
    )


def _read_json(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON in which no name is given twice: two readers could see two different things."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) != len(pairs):
            message = "a member is named twice"
            raise ValueError(message)
        return read

    return json.loads(data.decode(), object_pairs_hook=once)


def _reason(error: Exception) -> str:
    """Return the first thing that is wrong, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg'].lower()}"
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _statement_invalid(reason: str) -> VerificationFailed:
    return VerificationFailed(
        "The signed statement cannot be used.",
        code="statement_invalid",
        why=f"The signature is good, but {reason}.",
        fix="Report this to the farm's operator: the farm signs something this client cannot read.",
    )
