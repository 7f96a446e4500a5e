"""Content addresses: ``sha256:`` and 64 lowercase hex digits, everywhere.

Also the one canonical form of JSON, so that a key or a signed statement has one spelling.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints

from enginefarm.errors import InvalidRequest

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
_DIGEST = re.compile(DIGEST_PATTERN)
_CHUNK = 1 << 20

Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
"""``sha256:<64 lowercase hex>``."""


def is_digest(text: str) -> bool:
    """Tell whether ``text`` is a digest in the one spelling the farm uses."""
    return _DIGEST.fullmatch(text) is not None


def require_digest(text: str) -> str:
    """Return ``text`` if it is a digest.

    Raises:
        InvalidRequest: it is not (code ``invalid_digest``).
    """
    if is_digest(text):
        return text
    raise InvalidRequest(
        f"{text[:80]!r} is not a digest.",
        code="invalid_digest",
        fix="Write sha256: and 64 lowercase hexadecimal digits.",
    )


def hex_of(digest: str) -> str:
    """Return the 64 hex digits of a digest."""
    return require_digest(digest).removeprefix("sha256:")


def digest_of(data: bytes) -> str:
    """Return the digest of bytes in memory."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_of_chunks(chunks: Iterable[bytes]) -> str:
    """Return the digest of a stream."""
    hasher = hashlib.sha256()
    for chunk in chunks:
        hasher.update(chunk)
    return f"sha256:{hasher.hexdigest()}"


def digest_of_file(path: Path) -> str:
    """Return the digest of a file, read in one-megabyte pieces."""
    with path.open("rb") as stream:
        return digest_of_chunks(iter(lambda: stream.read(_CHUNK), b""))


def repr_digest(digest: str) -> str:
    """Return the ``Repr-Digest`` header value of a digest (RFC 9530)."""
    return f"sha-256=:{base64_sha256(digest)}:"


def base64_sha256(digest: str) -> str:
    """Return the base64 form S3 wants in ``x-amz-checksum-sha256``."""
    return base64.b64encode(bytes.fromhex(hex_of(digest))).decode()


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Return the one spelling of a JSON value: sorted keys, no spaces, UTF-8, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()
