"""How the bucket is spoken to: a client that any S3 store understands, and what its errors mean.

The farm's promise that an object's name is the hash of its bytes stands on two things that not
every store honours: a pinned checksum and If-None-Match. :func:`prove` finds out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from enginefarm.digest import base64_sha256, digest_of, hex_of
from enginefarm.errors import Unavailable
from storage.settings import StorageSettings

# More than the threads of one process that read and write at the same time.
_CONNECTIONS = 64
BLOBS = "sha256/"
"""Below it lie the bytes that have been read and have the digest they are named by."""


def make_client(settings: StorageSettings, endpoint: str | None) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
    """Return a boto3 client for ``endpoint``; for AWS if there is none."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=settings.s3_region,
        aws_access_key_id=settings.s3_access_key,
        aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
        config=Config(
            # Unless told, boto3 presigns for a custom endpoint with version 2: no pinned headers.
            signature_version="s3v4",
            # Other stores than AWS refuse or misread the newer default checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path"} if endpoint else {},
            retries={"max_attempts": 3, "mode": "standard"},
            connect_timeout=5,
            read_timeout=20,
            max_pool_connections=_CONNECTIONS,
        ),
    )


def make_bucket(client: Any, bucket: str) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
    """Make a bucket in the client's region; another process may be doing the same."""
    region = client.meta.region_name
    # AWS wants the region named everywhere but in its oldest one, where it must not be.
    where = {} if region == "us-east-1" else {"LocationConstraint": region}
    try:
        client.create_bucket(
            Bucket=bucket, **({"CreateBucketConfiguration": where} if where else {})
        )
    except ClientError as error:
        if status_of(error) != HTTPStatus.CONFLICT:
            raise
        client.head_bucket(Bucket=bucket)  # refused if it is somebody else's


def blob_key(digest: str) -> str:
    """Return where the bytes of a digest lie."""
    name = hex_of(digest)
    return f"{BLOBS}{name[:2]}/{name}"


def status_of(error: ClientError) -> int:
    """Return the HTTP status that the store answered with."""
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status


def word_of(error: ClientError) -> str:
    """Return the store's word for what is wrong, such as ``NoSuchKey``."""
    word: str = error.response.get("Error", {}).get("Code", "")
    return word


def head_of(client: Any, bucket: str, key: str, **more: str) -> dict[str, Any] | None:  # noqa: ANN401 - boto3 makes its classes at run time
    """Return what the store says of an object, or None if it is not there."""
    with answering():
        try:
            answer: dict[str, Any] = client.head_object(Bucket=bucket, Key=key, **more)
        except ClientError as error:
            if status_of(error) != HTTPStatus.NOT_FOUND:
                raise
            # An answer to HEAD has no body to tell a missing object from a missing bucket, and
            # only one of the two is a node's fault.
            client.head_bucket(Bucket=bucket)
            return None
    return answer


@contextmanager
def answering() -> Iterator[None]:
    """Turn whatever the store says that nobody has understood into :class:`Unavailable`.

    Raises:
        Unavailable: the bucket is away or refuses the farm (code ``bucket_away``).
    """
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise Unavailable(
            "The bucket does not answer as it should.",
            code="bucket_away",
            why=f"{type(error).__name__}: {str(error)[:200]}",
            fix="Nothing was lost; try again in a moment.",
        ) from error


def end_transfers(
    client: Any,  # noqa: ANN401 - boto3 makes its classes at run time
    bucket: str,
    folder: str,
    before: datetime | None = None,
) -> int:
    """End the transfers in parts below a folder, or those begun before a moment; say how many."""
    ended = 0
    with answering():
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=bucket, Prefix=folder
        )
        for row in (row for page in pages for row in page.get("Uploads", [])):
            if before is not None and row["Initiated"] >= before:
                continue
            # Somebody else may have ended it just now.
            with suppress(client.exceptions.NoSuchUpload):
                client.abort_multipart_upload(
                    Bucket=bucket, Key=row["Key"], UploadId=row["UploadId"]
                )
                ended += 1
    return ended


def prove(client: Any, bucket: str) -> None:  # noqa: ANN401 - boto3 makes its classes at run time
    """Write, read and remove one object outside the blobs, and see both pins refuse.

    Raises:
        Unavailable: the bucket is away (``bucket_away``) or ignores a pin (``bucket_unfit``).
    """
    data = secrets.token_bytes(32)
    digest = digest_of(data)
    place = {"Bucket": bucket, "Key": f"probe/{hex_of(digest)}"}
    pinned = {**place, "ChecksumSHA256": base64_sha256(digest), "IfNoneMatch": "*"}
    with answering():
        try:
            if not _refuses(client, HTTPStatus.BAD_REQUEST, **pinned, Body=data[::-1]):
                raise _unfit("It keeps bytes that do not have the sha256 they were sent with.")
            client.put_object(**pinned, Body=data)
            if not _refuses(client, HTTPStatus.PRECONDITION_FAILED, **pinned, Body=data):
                raise _unfit("It replaces an object although If-None-Match forbids it.")
            part = client.get_object(**place, Range="bytes=8-15")["Body"].read()
            if part != data[8:16]:
                raise _unfit("It does not return the range of an object that it is asked for.")
        finally:
            client.delete_object(**place)


def _refuses(client: Any, status: HTTPStatus, **request: Any) -> bool:  # noqa: ANN401 - a request of boto3
    try:
        client.put_object(**request)
    except ClientError as error:
        if status_of(error) == status:
            return True
        raise
    return False


def _unfit(why: str) -> Unavailable:
    return Unavailable(
        "The bucket cannot keep the farm's blobs.",
        code="bucket_unfit",
        why=why,
        fix="Use a store that honours x-amz-checksum-sha256 and If-None-Match on PUT.",
    )
