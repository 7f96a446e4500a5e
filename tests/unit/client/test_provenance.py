"""Every way in which an attestation can be wrong is refused with its own code."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from enginefarm.digest import digest_of
from enginefarm.errors import VerificationFailed
from enginefarm.provenance import verify_artifact, verify_bundle
from enginefarm.trust import parse_trust
from enginefarm.trust_views import TrustKey
from tests.unit.client.support.release import BUILDER, Release, SigningKey, statement_about

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def test_a_statement_signed_by_a_trusted_key_is_returned(key: SigningKey, release: Release) -> None:
    statement = verify_bundle(release.bundles[0], [SigningKey.new().trusted, key.trusted])

    assert statement.keyid == key.trusted.keyid
    assert statement.builder == BUILDER
    assert statement.covers(release.digest)
    assert json.loads(statement.payload) == release.statement


def test_an_artifact_whose_every_file_is_a_subject_is_returned(
    key: SigningKey, release: Release
) -> None:
    verified = verify_artifact(release.manifest, release.digest, release.bundles, [key.trusted])

    assert [layer.name for layer in verified.manifest.layers] == sorted(release.files)
    assert verified.bundle == release.bundles[0]


Tamper = Callable[[dict[str, Any], SigningKey], object]


def _edit_payload(bundle: dict[str, Any], _: SigningKey) -> None:
    envelope = bundle["dsseEnvelope"]
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()


def _add_signature(bundle: dict[str, Any], _: SigningKey) -> None:
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    bundle["dsseEnvelope"]["signatures"].append(SigningKey.new().sign(payload))


def _claim_other_key(bundle: dict[str, Any], _: SigningKey) -> None:
    other = bytes.fromhex(SigningKey.new().trusted.keyid)
    bundle["verificationMaterial"]["publicKey"]["hint"] = base64.b64encode(other).decode()
    del bundle["dsseEnvelope"]["signatures"][0]["keyid"]


def _sign_with_another(bundle: dict[str, Any], _: SigningKey) -> None:
    """Sign with a foreign key, and claim that it was the trusted one."""
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    forged = SigningKey.new().sign(payload)["sig"]
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = forged


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "payload edited": (_edit_payload, "signature_wrong"),
    "signed by another key": (_sign_with_another, "signature_wrong"),
    "signature of no shape": (
        lambda b, _: b["dsseEnvelope"]["signatures"][0].update(sig="AAAA"),
        "signature_wrong",
    ),
    "second signature": (_add_signature, "signature_count"),
    "no signature": (lambda b, _: b["dsseEnvelope"]["signatures"].clear(), "signature_count"),
    "unknown key": (_claim_other_key, "key_unknown"),
    "empty hint": (
        lambda b, _: (
            b["verificationMaterial"]["publicKey"].update(hint=""),
            b["dsseEnvelope"]["signatures"][0].pop("keyid"),
        ),
        "key_unknown",
    ),
    "hint and keyid differ": (
        lambda b, _: b["dsseEnvelope"]["signatures"][0].update(keyid="ab" * 32),
        "bundle_invalid",
    ),
    "payload type": (
        lambda b, _: b["dsseEnvelope"].update(payloadType="application/json"),
        "payload_type_wrong",
    ),
    "media type": (lambda b, _: b.update(mediaType="application/json"), "bundle_invalid"),
    "certificate instead of a key": (
        lambda b, _: b.update(verificationMaterial={"certificate": {"rawBytes": "AA=="}}),
        "bundle_invalid",
    ),
    "message signature instead of an envelope": (
        lambda b, _: b.update(messageSignature=b.pop("dsseEnvelope")),
        "bundle_invalid",
    ),
    "payload not base64": (
        lambda b, _: b["dsseEnvelope"].update(payload="not base64!"),
        "bundle_invalid",
    ),
    "hint not base64": (
        lambda b, _: b["verificationMaterial"]["publicKey"].update(hint="%%%"),
        "bundle_invalid",
    ),
    "signature a number": (
        lambda b, _: b["dsseEnvelope"]["signatures"].__setitem__(0, 5),
        "bundle_invalid",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_bundle_is_refused(name: str, key: SigningKey, release: Release) -> None:
    tamper, code = TAMPERED[name]
    bundle = json.loads(release.bundles[0])
    tamper(bundle, key)

    refusal = refused(json.dumps(bundle).encode(), [key.trusted])

    assert refusal.code == code
    assert refusal.message
    assert refusal.fix


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":1,"a":2}', b"x" * (5 << 20)],
    ids=["empty", "null", "list", "cut", "not utf-8", "deep", "member twice", "huge"],
)
def test_what_is_no_bundle_is_refused(data: bytes, key: SigningKey) -> None:
    assert refused(data, [key.trusted]).code == "bundle_invalid"


def test_a_member_named_twice_in_the_bundle_is_refused(key: SigningKey, release: Release) -> None:
    text = release.bundles[0].decode()
    doubled = text.replace('"payloadType"', '"payload": "AAAA", "payloadType"', 1)

    assert refused(doubled.encode(), [key.trusted]).code == "bundle_invalid"


def _statement(**changed: object) -> dict[str, Any]:
    return statement_about({"a": digest_of(b"a")}) | changed


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"not json", "statement_invalid"),
        (b"[]", "statement_invalid"),
        (_statement(_type="https://in-toto.io/Statement/v0.1"), "statement_invalid"),
        (_statement(subject=[]), "statement_invalid"),
        (_statement(subject=[{"name": "a", "digest": {"blake3": "00"}}]), "statement_invalid"),
        (_statement(predicate={}), "statement_invalid"),
        (_statement(predicateType="https://slsa.dev/provenance/v0.2"), "predicate_type_wrong"),
        (statement_about({"a": digest_of(b"a")}, "https://elsewhere/builder"), "builder_unknown"),
    ],
)
def test_a_signed_statement_that_says_something_else_is_refused(
    payload: bytes | dict[str, Any], code: str, key: SigningKey
) -> None:
    bundle = key.bundle_of(payload) if isinstance(payload, bytes) else key.bundle(payload)

    assert refused(json.dumps(bundle).encode(), [key.trusted]).code == code


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"revoked_at": NOW - timedelta(days=1)}, "key_revoked"),
        ({"revoked_at": NOW + timedelta(days=1)}, "key_revoked"),
        ({"not_after": NOW - timedelta(seconds=1)}, "key_expired"),
        ({"not_after": datetime(2026, 1, 1)}, "key_expired"),  # noqa: DTZ001 - a bare time
        ({"not_before": NOW + timedelta(seconds=1)}, "key_not_yet_valid"),
        ({"builders": []}, "builder_unknown"),
    ],
)
def test_a_key_that_may_not_sign_now_is_refused(entry: dict[str, Any], code: str) -> None:
    key = SigningKey.new(**entry)
    bundle = key.bundle(_statement())

    assert refused(json.dumps(bundle).encode(), [key.trusted], at=NOW).code == code


def test_without_a_given_time_the_key_must_be_valid_now() -> None:
    key = SigningKey.new(not_after=datetime.now(UTC) - timedelta(seconds=1))
    bundle = key.bundle(_statement())

    assert refused(json.dumps(bundle).encode(), [key.trusted]).code == "key_expired"


def test_a_trust_entry_that_names_another_key_is_refused(key: SigningKey, release: Release) -> None:
    """Else whoever can edit an entry's PEM speaks under a known key id."""
    swapped = key.trusted.model_copy(update={"public_key": SigningKey.new().trusted.public_key})

    assert refused(release.bundles[0], [swapped]).code == "trust_invalid"


def test_the_same_key_named_twice_is_refused(key: SigningKey, release: Release) -> None:
    """Else a revoked entry could be hidden behind a second one."""
    revoked = key.trusted.model_copy(update={"revoked_at": NOW})

    assert refused(release.bundles[0], [key.trusted, revoked]).code == "key_unknown"


@pytest.mark.parametrize(
    "private", [ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()]
)
def test_a_trust_file_with_another_kind_of_key_is_refused(
    private: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, key: SigningKey
) -> None:
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    entry = key.trusted.model_copy(update={"public_key": pem.decode()})

    with pytest.raises(VerificationFailed, match="P-256") as caught:
        parse_trust(b'{"keys":[%b]}' % entry.model_dump_json().encode(), "trust.json")
    assert caught.value.code == "trust_invalid"


@pytest.mark.parametrize("left_out", ["manifest.json", "config.json", "model.onnx", "report.json"])
def test_a_statement_that_leaves_a_file_out_is_refused(
    left_out: str, key: SigningKey, release: Release
) -> None:
    release.statement["subject"] = [
        subject for subject in release.statement["subject"] if subject["name"] != left_out
    ]
    release.sign(key)

    with pytest.raises(VerificationFailed) as caught:
        verify_artifact(release.manifest, release.digest, release.bundles, [key.trusted])
    assert caught.value.code == "subject_missing"
    assert caught.value.context["missing"] == [left_out]


def test_another_artifacts_attestation_is_refused(key: SigningKey, release: Release) -> None:
    other = Release.of(key, {"model.onnx": b"other engine"})

    with pytest.raises(VerificationFailed) as caught:
        verify_artifact(release.manifest, release.digest, other.bundles, [key.trusted])
    assert caught.value.code == "subject_missing"


def test_a_manifest_that_is_not_the_digests_is_refused(key: SigningKey, release: Release) -> None:
    other = Release.of(key, {"model.onnx": b"other engine"})

    with pytest.raises(VerificationFailed) as caught:
        verify_artifact(other.manifest, release.digest, other.bundles, [key.trusted])
    assert caught.value.code == "manifest_digest_mismatch"


def test_an_artifact_that_nobody_signed_is_refused(key: SigningKey, release: Release) -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_artifact(release.manifest, release.digest, [], [key.trusted])
    assert caught.value.code == "attestation_missing"


def test_one_good_attestation_among_bad_ones_is_enough(key: SigningKey, release: Release) -> None:
    revoked = SigningKey.new(revoked_at=NOW)
    bad = json.dumps(revoked.bundle(release.statement)).encode()

    verified = verify_artifact(
        release.manifest,
        release.digest,
        [bad, *release.bundles],
        [revoked.trusted, key.trusted],
    )

    assert verified.statement.keyid == key.trusted.keyid


def refused(
    bundle: bytes, keys: list[TrustKey], *, at: datetime | None = None
) -> VerificationFailed:
    with pytest.raises(VerificationFailed) as caught:
        verify_bundle(bundle, keys, at=at)
    return caught.value
