"""Objects that come in parts, by many requests: S3 multipart uploads outside of the blobs.

A place is ``uploads/<id>/<file>``. Each part is pinned by length and sha256. What a whole object
holds is known only when it has been read, since a store keeps no sha256 of what came in parts; so
it is read, hashed and only then copied to where bytes lie under their digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import ClientError

from enginefarm.digest import base64_sha256
from storage import unfit
from storage.s3 import BLOBS, answering, blob_key, end_transfers, head_of, status_of, word_of

_CHUNK = 1 << 20
_IMMUTABLE = "private, max-age=31536000, immutable"
# What S3 copies in one piece at most is 5 GiB; smaller pieces are sooner there.
_COPIED = 512 << 20
_UNLIKE_ANNOUNCED = {"BadDigest", "InvalidPart", "InvalidPartOrder"}


@dataclass(frozen=True)
class Part:
    """One part that is there; ``etag`` is the store's name for its bytes."""

    number: int
    size: int
    etag: str


@dataclass(frozen=True)
class Whole:
    """An object whose parts were joined, as it is now."""

    place: str
    size: int
    etag: str


class Parts(Protocol):
    """A store of objects that come in parts."""

    def begin(self, place: str, media_type: str) -> str:
        """Begin an object; return the store's name for the transfer."""

    def presign(
        self, place: str, transfer: str, number: int, digest: str, size: int, *, seconds: int
    ) -> tuple[str, dict[str, str]]:
        """Return a URL and headers that write exactly these bytes as one part."""

    def put(self, place: str, transfer: str, number: int, digest: str, path: Path) -> None:
        """Keep a file as one part; a repeat changes nothing."""

    def listing(self, place: str, transfer: str) -> dict[int, Part]:
        """Return the parts that are there, by number; none if there is no such transfer."""

    def is_begun(self, place: str, transfer: str) -> bool:
        """Tell whether a transfer takes parts; the store's own rules may have ended it."""

    def join(self, place: str, transfer: str, digests: Mapping[int, str]) -> Whole:
        """Make one object of the parts, whose digests these are; a repeat changes nothing."""

    def stream(self, whole: Whole) -> Iterator[bytes]:
        """Give the bytes of a joined object, and of no other that may lie there by now."""

    def promote(self, whole: Whole, digest: str, media_type: str) -> None:
        """Copy what was found to have this digest to where it belongs."""

    def clear(self, folder: str) -> None:
        """Remove every object and every part below a folder."""

    def give_up(self, before: datetime) -> int:
        """Remove the parts of copies that were begun before a moment and never ended."""


class S3Parts:
    """:class:`Parts` in an S3 bucket."""

    def __init__(self, client: Any, bucket: str, public_client: Any) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
        """Use ``client`` for work and ``public_client`` to name URLs that others will open."""
        self._client = client
        self._public = public_client
        self._bucket = bucket

    def begin(self, place: str, media_type: str) -> str:
        """Begin an object; return the store's name for the transfer."""
        with answering():
            answer = self._client.create_multipart_upload(
                **self._at(place), ContentType=media_type, ChecksumAlgorithm="SHA256"
            )
        transfer: str = answer["UploadId"]
        return transfer

    def presign(
        self, place: str, transfer: str, number: int, digest: str, size: int, *, seconds: int
    ) -> tuple[str, dict[str, str]]:
        """Return a URL and headers that write exactly these bytes as one part."""
        checksum = base64_sha256(digest)
        parameters = {"UploadId": transfer, "PartNumber": number, "ContentLength": size}
        url: str = self._public.generate_presigned_url(
            "upload_part",
            Params=self._at(place) | parameters | {"ChecksumSHA256": checksum},
            ExpiresIn=seconds,
        )
        return url, {"content-length": str(size), "x-amz-checksum-sha256": checksum}

    def put(self, place: str, transfer: str, number: int, digest: str, path: Path) -> None:
        """Keep a file as one part; a repeat changes nothing.

        Raises:
            Conflict: the transfer is no longer there (code ``upload_lost``).
        """
        with answering(), path.open("rb") as stream:
            try:
                self._client.upload_part(
                    **self._at(place),
                    UploadId=transfer,
                    PartNumber=number,
                    Body=stream,
                    ChecksumSHA256=base64_sha256(digest),
                )
            except ClientError as error:
                if word_of(error) == "NoSuchUpload":
                    raise unfit.lost(place) from error
                raise

    def listing(self, place: str, transfer: str) -> dict[int, Part]:
        """Return the parts that are there, by number; none if there is no such transfer."""
        found: dict[int, Any] = {}
        with answering():
            pages = self._client.get_paginator("list_parts").paginate(
                **self._at(place), UploadId=transfer
            )
            try:
                # Some stores keep a part that was sent again beside the first, and list both.
                for row in (row for page in pages for row in page.get("Parts", [])):
                    former = found.get(row["PartNumber"])
                    if former is None or former["LastModified"] < row["LastModified"]:
                        found[row["PartNumber"]] = row
            except ClientError as error:
                if word_of(error) != "NoSuchUpload":
                    raise
                return {}
        return {
            number: Part(number, row["Size"], row["ETag"]) for number, row in sorted(found.items())
        }

    def is_begun(self, place: str, transfer: str) -> bool:
        """Tell whether a transfer takes parts; the store's own rules may have ended it."""
        with answering():
            try:
                self._client.list_parts(**self._at(place), UploadId=transfer, MaxParts=1)
            except ClientError as error:
                if word_of(error) != "NoSuchUpload":
                    raise
                return False
        return True

    def join(self, place: str, transfer: str, digests: Mapping[int, str]) -> Whole:
        """Make one object of the parts, whose digests these are; a repeat changes nothing.

        Raises:
            Conflict: the parts are no longer there (code ``upload_lost``), or are not those that
                were announced (code ``part_corrupt``).
        """
        whole = self._whole(place)
        if whole is None:
            self._complete(place, transfer, digests)
            whole = self._whole(place)
        if whole is None:
            raise unfit.lost(place)
        return whole

    def _complete(self, place: str, transfer: str, digests: Mapping[int, str]) -> None:
        there = self.listing(place, transfer)
        if there.keys() != digests.keys():
            raise unfit.lost(place)
        parts = [
            {
                "PartNumber": number,
                "ETag": part.etag,
                "ChecksumSHA256": base64_sha256(digests[number]),
            }
            for number, part in there.items()
        ]
        with answering():
            try:
                self._client.complete_multipart_upload(
                    **self._at(place), UploadId=transfer, MultipartUpload={"Parts": parts}
                )
            except ClientError as error:
                if word_of(error) in _UNLIKE_ANNOUNCED:
                    raise unfit.part(place, word_of(error)) from error
                if word_of(error) == "NoSuchUpload":
                    raise unfit.lost(place) from error
                raise

    def _whole(self, place: str) -> Whole | None:
        answer = head_of(self._client, self._bucket, place)
        return None if answer is None else Whole(place, answer["ContentLength"], answer["ETag"])

    def stream(self, whole: Whole) -> Iterator[bytes]:
        """Give the bytes of a joined object, and of no other that may lie there by now.

        Raises:
            Conflict: it is gone, or another (code ``upload_lost``).
        """
        with answering():
            try:
                answer = self._client.get_object(**self._at(whole.place), IfMatch=whole.etag)
            except ClientError as error:
                if _is_gone(error):
                    raise unfit.lost(whole.place) from error
                raise
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(_CHUNK)

    def promote(self, whole: Whole, digest: str, media_type: str) -> None:
        """Copy what was found to have this digest to where it belongs.

        Raises:
            Conflict: it is gone, or another (code ``upload_lost``).
        """
        there = {"Bucket": self._bucket, "Key": blob_key(digest)}
        with answering():
            begun = self._client.create_multipart_upload(
                **there, ContentType=media_type, CacheControl=_IMMUTABLE
            )
            there["UploadId"] = begun["UploadId"]
            try:
                parts = [self._copied(whole, there, start) for start in self._pieces(whole)]
                self._client.complete_multipart_upload(
                    **there, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
                )
            except ClientError as error:
                self._client.abort_multipart_upload(**there)
                # Whoever was first has stored the same bytes.
                if head_of(self._client, self._bucket, blob_key(digest)) is not None:
                    return
                if _is_gone(error):
                    raise unfit.lost(whole.place) from error
                raise

    @staticmethod
    def _pieces(whole: Whole) -> range:
        return range(0, whole.size, _COPIED)

    def _copied(self, whole: Whole, there: dict[str, str], start: int) -> dict[str, Any]:
        end = min(start + _COPIED, whole.size) - 1
        span = {} if whole.size <= _COPIED else {"CopySourceRange": f"bytes={start}-{end}"}
        number = start // _COPIED + 1
        answer = self._client.upload_part_copy(
            **there,
            PartNumber=number,
            CopySource=self._at(whole.place),
            CopySourceIfMatch=whole.etag,
            **span,
        )
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

    def clear(self, folder: str) -> None:
        """Remove every object and every part below a folder."""
        end_transfers(self._client, self._bucket, folder)
        with answering():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=folder
            )
            for row in (row for page in pages for row in page.get("Contents", [])):
                self._client.delete_object(**self._at(row["Key"]))

    def give_up(self, before: datetime) -> int:
        """Remove the parts of copies that were begun before a moment and never ended."""
        return end_transfers(self._client, self._bucket, BLOBS, before)

    def _at(self, place: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": place}


def _is_gone(error: ClientError) -> bool:
    words = {"NoSuchKey", "NoSuchUpload", "PreconditionFailed"}
    return word_of(error) in words or status_of(error) == HTTPStatus.PRECONDITION_FAILED
