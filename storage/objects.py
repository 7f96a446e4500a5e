"""Bytes by digest in an S3 bucket: ``sha256/<2 hex>/<64 hex>``.

Only the control plane writes here: what others send lies apart until it was read (``parts``,
``staging``). Every write pins the sha256 and refuses to replace what is there. So an object's name
is always the hash of its bytes, and two writers cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import ClientError

from enginefarm.digest import (
    base64_sha256,
    digest_of,
    digest_of_chunks,
    digest_of_file,
)
from storage import unfit
from storage.parts import Parts, S3Parts
from storage.s3 import (
    BLOBS,
    answering,
    blob_key,
    head_of,
    make_bucket,
    make_client,
    prove,
    status_of,
    word_of,
)
from storage.settings import StorageSettings
from storage.staging import S3Staging, Staging

_CHUNK = 1 << 20
_IMMUTABLE = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class ObjectInfo:
    """What the store says of an object; ``checksum_ok`` is None if it keeps no checksum."""

    size: int
    checksum_ok: bool | None


class Objects(Protocol):
    """A content-addressed store of bytes; ``parts`` and ``staging`` are what is not yet in it."""

    parts: Parts
    staging: Staging

    def put_file(self, digest: str, path: Path, media_type: str) -> None:
        """Keep a file; a repeat changes nothing."""

    def put_bytes(self, digest: str, data: bytes, media_type: str) -> None:
        """Keep bytes; a repeat changes nothing."""

    def head(self, digest: str) -> ObjectInfo | None:
        """Return what is known of an object, or None if it is not there."""

    def confirm(self, digest: str, size: int) -> None:
        """Make sure that the object is there, whole and unharmed."""

    def remove(self, digest: str) -> None:
        """Remove an object; one that is not there is no trouble."""

    def listing(self, after: str = "") -> list[tuple[str, datetime]]:
        """Return some digests and when each was stored, in order, the first after ``after``."""

    def read(self, digest: str, limit: int) -> bytes:
        """Return an object of at most ``limit`` bytes."""

    def stream(self, digest: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Give the bytes from ``start`` to ``end`` (inclusive), piece by piece."""

    def presign_get(
        self,
        digest: str,
        *,
        seconds: int = 300,
        file_name: str | None = None,
        media_type: str | None = None,
    ) -> str:
        """Return a URL that reads the object for a while."""

    def ping(self) -> None:
        """Ask the bucket for an answer."""

    def probe(self) -> None:
        """Make sure that the bucket takes writes and honours the pins."""


class S3Objects:
    """:class:`Objects` in an S3 bucket."""

    def __init__(self, client: Any, bucket: str, public_client: Any | None = None) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
        """Use ``client`` for work and ``public_client`` to name URLs that others will open."""
        self._client = client
        self._public = public_client or client
        self._bucket = bucket
        self.parts: Parts = S3Parts(client, bucket, self._public)
        self.staging: Staging = S3Staging(client, bucket, self._public)

    @classmethod
    def from_settings(cls, settings: StorageSettings) -> S3Objects:
        """Make the store that the settings describe."""
        client = make_client(settings, settings.s3_endpoint)
        public = settings.s3_public_endpoint
        return cls(client, settings.s3_bucket, make_client(settings, public) if public else None)

    def ensure_bucket(self) -> None:
        """Make the bucket unless it is there."""
        with answering():
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if status_of(error) != HTTPStatus.NOT_FOUND:
                    raise
                make_bucket(self._client, self._bucket)

    def ping(self) -> None:
        """Ask the bucket for an answer.

        Raises:
            Unavailable: it is away or missing (code ``bucket_away``).
        """
        with answering():
            self._client.head_bucket(Bucket=self._bucket)

    def probe(self) -> None:
        """Write, read and remove one object, so that a wrong bucket is known at the start.

        Raises:
            Unavailable: ``bucket_away``, or ``bucket_unfit`` if it does not honour the pins.
        """
        prove(self._client, self._bucket)

    def put_file(self, digest: str, path: Path, media_type: str) -> None:
        """Keep a file; a repeat changes nothing."""
        if digest_of_file(path) != digest:
            raise unfit.corrupt(digest)
        with path.open("rb") as stream:
            self._put(digest, stream, media_type)

    def put_bytes(self, digest: str, data: bytes, media_type: str) -> None:
        """Keep bytes; a repeat changes nothing."""
        if digest_of(data) != digest:
            raise unfit.corrupt(digest)
        self._put(digest, data, media_type)

    def _put(self, digest: str, body: Any, media_type: str) -> None:  # noqa: ANN401 - bytes or a file
        with answering():
            try:
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=blob_key(digest),
                    Body=body,
                    ContentType=media_type,
                    CacheControl=_IMMUTABLE,
                    ChecksumSHA256=base64_sha256(digest),
                    IfNoneMatch="*",
                )
            except ClientError as error:
                if status_of(error) != HTTPStatus.PRECONDITION_FAILED:
                    raise

    def head(self, digest: str) -> ObjectInfo | None:
        """Return what is known of an object, or None if it is not there."""
        answer = head_of(self._client, self._bucket, blob_key(digest), ChecksumMode="ENABLED")
        if answer is None:
            return None
        stored = answer.get("ChecksumSHA256", "-")
        # What came in parts has a checksum of their checksums, which says nothing of the digest.
        same = None if "-" in stored else stored == base64_sha256(digest)
        return ObjectInfo(size=answer["ContentLength"], checksum_ok=same)

    def confirm(self, digest: str, size: int) -> None:
        """Make sure that the object is there, whole and unharmed.

        The bytes are read and hashed again: a checksum kept beside an object says what was
        written, not what is there now.

        Raises:
            JobFailed: ``blob_missing``, ``blob_size`` or ``blob_corrupt``, blamed on the node.
            Unavailable: the bucket is away (``bucket_away``).
        """
        info = self.head(digest)
        if info is None:
            raise unfit.missing(digest)
        if info.size != size:
            raise unfit.size(digest, info.size, size)
        if info.checksum_ok is False or digest_of_chunks(self.stream(digest)) != digest:
            raise unfit.corrupt(digest)

    def remove(self, digest: str) -> None:
        """Remove an object; one that is not there is no trouble."""
        with answering():
            self._client.delete_object(Bucket=self._bucket, Key=blob_key(digest))

    def listing(self, after: str = "") -> list[tuple[str, datetime]]:
        """Return some digests and when each was stored, in order, the first after ``after``."""
        start = {"StartAfter": blob_key(after)} if after else {}
        with answering():
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=BLOBS, **start)
        return [
            (f"sha256:{row['Key'].rpartition('/')[2]}", row["LastModified"])
            for row in page.get("Contents", [])
        ]

    def read(self, digest: str, limit: int) -> bytes:
        """Return an object of at most ``limit`` bytes, its digest checked."""
        info = self.head(digest)
        if info is None:
            raise unfit.missing(digest)
        if info.size > limit:
            raise unfit.unfit("blob_size", f"Blob {digest} is above {limit} bytes.", digest)
        data = b"".join(self.stream(digest))
        if digest_of(data) != digest:
            raise unfit.corrupt(digest)
        return data

    def stream(self, digest: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Give the bytes from ``start`` to ``end`` (inclusive), piece by piece."""
        span = f"bytes={start}-{'' if end is None else end}"
        extra = {"Range": span} if start or end is not None else {}
        with answering():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=blob_key(digest), **extra)
            except ClientError as error:
                if word_of(error) == "NoSuchKey":
                    raise unfit.missing(digest) from error
                if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise unfit.outside(digest, span) from error
                raise
            # A reader that stops early must not keep the connection.
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(_CHUNK)

    def presign_get(
        self,
        digest: str,
        *,
        seconds: int = 300,
        file_name: str | None = None,
        media_type: str | None = None,
    ) -> str:
        """Return a URL that reads the object for a while."""
        parameters = {"Bucket": self._bucket, "Key": blob_key(digest)}
        if file_name is not None:
            parameters["ResponseContentDisposition"] = f'attachment; filename="{file_name}"'
        if media_type is not None:
            parameters["ResponseContentType"] = media_type
        url: str = self._public.generate_presigned_url(
            "get_object", Params=parameters, ExpiresIn=seconds
        )
        return url
