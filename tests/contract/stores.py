"""What the tests of the object store share."""

from __future__ import annotations

import secrets

from enginefarm.digest import digest_of, hex_of
from storage.objects import S3Objects
from storage.settings import StorageSettings

RAW = "application/octet-stream"
MIB = 1 << 20


def store_at(s3: dict[str, str], **other: str) -> S3Objects:
    """Return a store by the settings ``s3``, some of them changed."""
    elsewhere = {"database_url": "postgresql+psycopg://none/none", "valkey_url": "redis://none"}
    return S3Objects.from_settings(StorageSettings.model_validate(elsewhere | s3 | other))


def fresh(size: int = 1000) -> tuple[bytes, str]:
    """Return bytes that nobody has stored before, and their digest."""
    data = secrets.token_bytes(size)
    return data, digest_of(data)


def overwrite(objects: S3Objects, digest: str, data: bytes, **pins: str) -> None:
    """Do what nobody may: replace the bytes under a digest."""
    name = hex_of(digest)
    objects._client.put_object(
        Bucket=objects._bucket, Key=f"sha256/{name[:2]}/{name}", Body=data, **pins
    )
