"""Make signed artifacts as a farm would, with real keys: good ones, and bad ones on request."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from enginefarm.digest import canonical_json, digest_of
from enginefarm.manifest import (
    BUNDLE_TYPE,
    CONFIG_TYPE,
    ENGINE_TYPES,
    REPORT_TYPE,
    TITLE,
    Descriptor,
    EngineConfig,
    Manifest,
)
from enginefarm.trust_views import TrustKey

BUILDER = "https://farm.example/builders/node/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass
class SigningKey:
    """A private key, and the entry by which deployers trust it."""

    private: ec.EllipticCurvePrivateKey
    trusted: TrustKey

    @classmethod
    def new(cls, **changed: object) -> SigningKey:
        """Make a key; ``changed`` are fields of its entry."""
        private = ec.generate_private_key(ec.SECP256R1())
        public = private.public_key()
        der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        entry: dict[str, object] = {
            "keyid": hashlib.sha256(der).hexdigest(),
            "public_key": pem.decode(),
            "builders": [BUILDER],
            "not_before": datetime(2020, 1, 1, tzinfo=UTC),
        }
        return cls(private, TrustKey.model_validate(entry | changed))

    def sign(self, payload: bytes, payload_type: str = PAYLOAD_TYPE) -> dict[str, str]:
        """Return a DSSE signature."""
        kind = payload_type.encode()
        message = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
        signature = self.private.sign(message, ec.ECDSA(SHA256()))
        return {"sig": base64.b64encode(signature).decode(), "keyid": self.trusted.keyid}

    def bundle(self, statement: dict[str, Any]) -> dict[str, Any]:
        """Return a Sigstore bundle around a signed statement."""
        return self.bundle_of(canonical_json(statement))

    def bundle_of(self, payload: bytes, payload_type: str = PAYLOAD_TYPE) -> dict[str, Any]:
        """Return a Sigstore bundle around any bytes, signed."""
        hint = base64.b64encode(bytes.fromhex(self.trusted.keyid)).decode()
        return {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": payload_type,
                "signatures": [self.sign(payload, payload_type)],
            },
        }


def statement_about(digests: dict[str, str], builder: str = BUILDER) -> dict[str, Any]:
    """Return a statement about these files."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}
            for name, digest in digests.items()
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {"buildType": "https://farm.example/buildtypes/engine/v1"},
            "runDetails": {
                "builder": {"id": builder, "version": {"farm": "0.1.0"}},
                "metadata": {"invocationId": "https://farm.example/builds/bld_1#1"},
            },
        },
    }


@dataclass
class Release:
    """An artifact with all of its bytes, as a farm holds it."""

    manifest: bytes
    config: bytes
    files: dict[str, bytes]
    statement: dict[str, Any]
    bundles: list[bytes] = field(default_factory=list)
    state: str = "published"

    @classmethod
    def of(
        cls,
        key: SigningKey,
        files: dict[str, bytes] | None = None,
        config: EngineConfig | None = None,
        annotations: dict[str, dict[str, str]] | None = None,
    ) -> Release:
        """Make an artifact over ``files``, of which the first is the engine, and sign it.

        ``annotations``: those of files, by name.
        """
        files = files or {"model.onnx": b"engine bytes " * 1000, "report.json": b'{"schema":1}'}
        told = config or engine_config("")
        named = told.model_copy(update={"engine_file": next(iter(files))})
        signed = canonical_json(named.model_dump(mode="json"))
        manifest = Manifest.of(
            described(signed, CONFIG_TYPE),
            [
                described(
                    data,
                    REPORT_TYPE if name.endswith(".json") else ENGINE_TYPES["onnxruntime"],
                    name,
                    **(annotations or {}).get(name, {}),
                )
                for name, data in files.items()
            ],
        ).render()
        digests = {"manifest.json": digest_of(manifest), "config.json": digest_of(signed)}
        digests |= {name: digest_of(data) for name, data in files.items()}
        statement = statement_about(digests)
        release = cls(manifest, signed, files, statement)
        release.sign(key)
        return release

    def sign(self, key: SigningKey) -> None:
        """Have one key's signature, and no other, over the statement as it is now."""
        self.bundles = [json.dumps(key.bundle(self.statement)).encode()]

    @property
    def digest(self) -> str:
        """The artifact's digest."""
        return digest_of(self.manifest)

    @property
    def blobs(self) -> dict[str, bytes]:
        """Every file's bytes by digest."""
        return {digest_of(data): data for data in (self.config, *self.files.values())}


def described(data: bytes, media_type: str, name: str = "", **more: str) -> Descriptor:
    """Return a descriptor of some bytes; ``more``: further annotations."""
    return Descriptor(
        media_type=media_type,
        digest=digest_of(data),
        size=len(data),
        annotations=({TITLE: name} if name else {}) | more,
    )


def engine_config(engine_file: str) -> EngineConfig:
    """Return a config for an engine of a small model."""
    return EngineConfig(
        target="onnxruntime@cpu",
        backend="onnxruntime",
        backend_version="1.32.0",
        arch="cpu",
        model=digest_of(b"model"),
        model_name="small",
        inputs=[{"name": "x", "dtype": "float32", "shape": ["N", 3]}],
        outputs=[{"name": "y", "dtype": "float32", "shape": ["N", 2]}],
        profiles=[{"x": {"min": [1, 3], "opt": [2, 3], "max": [4, 3]}}],
        measured=True,
        engine_file=engine_file,
        build="bld_1",
        recipe_key=digest_of(b"recipe"),
    )
