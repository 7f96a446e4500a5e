"""What nodes send, apart from the blobs until it was read: ``attempts/<job>/<number>/<64 hex>``.

Each place is one attempt's alone, and only that attempt is given its URL. So what lies there was
sent by whoever has the attempt, whether or not the same bytes lie under their digest already.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from enginefarm.digest import base64_sha256, hex_of
from storage.parts import Whole
from storage.s3 import answering, head_of

_ALL = "attempts/"


def staged_at(job_id: str, attempt: int, digest: str) -> str:
    """Return the place of bytes that an attempt may send."""
    return f"{_ALL}{job_id}/{attempt}/{hex_of(digest)}"


def sender_of(place: str) -> tuple[str, int]:
    """Return the job and the number of the attempt to which a place belongs."""
    _, job_id, number, _ = place.split("/")
    return job_id, int(number)


class Staging(Protocol):
    """A store of what attempts have sent."""

    def presign(
        self, place: str, digest: str, size: int, media_type: str, *, seconds: int
    ) -> tuple[str, dict[str, str]]:
        """Return a URL and headers that write exactly these bytes, once."""

    def find(self, place: str) -> Whole | None:
        """Return what lies at a place, or None if nothing was sent."""

    def remove(self, place: str) -> None:
        """Remove what lies at a place; nothing there is no trouble."""

    def listing(self, after: str = "") -> list[tuple[str, datetime]]:
        """Return some places and when each was filled, in order, the first after ``after``."""


class S3Staging:
    """:class:`Staging` in an S3 bucket."""

    def __init__(self, client: Any, bucket: str, public_client: Any) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
        """Use ``client`` for work and ``public_client`` to name URLs that nodes will open."""
        self._client = client
        self._public = public_client
        self._bucket = bucket

    def presign(
        self, place: str, digest: str, size: int, media_type: str, *, seconds: int
    ) -> tuple[str, dict[str, str]]:
        """Return a URL and headers that write exactly these bytes, once."""
        checksum = base64_sha256(digest)
        url: str = self._public.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": place,
                "ContentLength": size,
                "ContentType": media_type,
                "ChecksumSHA256": checksum,
                "IfNoneMatch": "*",
            },
            ExpiresIn=seconds,
        )
        headers = {
            "content-length": str(size),
            "content-type": media_type,
            "if-none-match": "*",
            "x-amz-checksum-sha256": checksum,
        }
        return url, headers

    def find(self, place: str) -> Whole | None:
        """Return what lies at a place, or None if nothing was sent."""
        answer = head_of(self._client, self._bucket, place)
        return None if answer is None else Whole(place, answer["ContentLength"], answer["ETag"])

    def remove(self, place: str) -> None:
        """Remove what lies at a place; nothing there is no trouble."""
        with answering():
            self._client.delete_object(Bucket=self._bucket, Key=place)

    def listing(self, after: str = "") -> list[tuple[str, datetime]]:
        """Return some places and when each was filled, in order, the first after ``after``."""
        start = {"StartAfter": after} if after else {}
        with answering():
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=_ALL, **start)
        return [(row["Key"], row["LastModified"]) for row in page.get("Contents", [])]
