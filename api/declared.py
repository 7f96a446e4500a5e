"""Hold an upload to what its sender said of it: the fields there are, and the digest."""

from __future__ import annotations

from api.uploads import ReceivedFile, Upload
from enginefarm.digest import repr_digest
from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean

FIELDS = {"file", "name", "digest"}


def require_known_fields(sent: Upload) -> None:
    """Refuse a form field that nobody reads.

    Raises:
        InvalidRequest: code ``unknown_field``, naming the nearest.
    """
    for name in sent.fields:
        if name not in FIELDS:
            raise InvalidRequest(
                f"There is no form field {name[:40]!r} here.",
                code="unknown_field",
                fix=did_you_mean(name, FIELDS),
            )


def require_digest_sent(sent: Upload, file: ReceivedFile, header: str | None) -> None:
    """Refuse a file whose bytes are not those of the ``digest`` field or ``Repr-Digest`` header.

    Raises:
        InvalidRequest: code ``digest_mismatch``.
    """
    field = sent.fields.get("digest")
    if field in (None, file.digest) and header in (None, repr_digest(file.digest)):
        return
    raise InvalidRequest(
        f"The file {file.name!r} does not have the digest that was sent with it.",
        code="digest_mismatch",
        why=f"It arrived as {file.digest}.",
        fix="Send it again; if this repeats, the digest is of another file.",
        expected=field or header,
        actual=file.digest,
    )
