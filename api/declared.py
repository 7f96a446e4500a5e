"""What an upload is declared to be, in the API's document; and each is held to what it says."""

from __future__ import annotations

from typing import Any

from api.uploads import RAW, ReceivedFile, Upload
from enginefarm.digest import repr_digest, require_digest
from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean

FIELDS = {"file", "name", "digest"}
BYTES = {"type": "string", "format": "binary"}


def upload_body(what: str, file: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI request body of an upload: a form with ``file``, or the bare bytes.

    ``what`` is the file whose digest may be sent along; ``file`` the schema of the form's field.
    """
    fields = {
        "file": file,
        "name": {"type": "string", "description": "A name to show."},
        "digest": {
            "type": "string",
            "description": f"sha256:… of the {what} file, checked on arrival.",
        },
    }
    form = {"type": "object", "required": ["file"], "properties": fields}
    return {
        "required": True,
        "content": {"multipart/form-data": {"schema": form}, RAW: {"schema": BYTES}},
    }


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
        InvalidRequest: code ``digest_mismatch``, or ``invalid_digest`` for a field that is none.
    """
    field = sent.fields.get("digest")
    expected = [require_digest(field)] if field is not None else []
    for expectation in [*expected, *_in_header(header)]:
        if expectation not in (file.digest, repr_digest(file.digest)):
            raise InvalidRequest(
                f"The file {file.name!r} does not have the digest that was sent with it.",
                code="digest_mismatch",
                why=f"It arrived as {file.digest}.",
                fix="Send it again; if this repeats, the digest is of another file.",
                expected=expectation,
                actual=file.digest,
            )


def _in_header(header: str | None) -> list[str]:
    """Return the sha-256 members of a ``Repr-Digest``; others are not ours to judge (RFC 9530)."""
    members = [member.strip() for member in (header or "").split(",")]
    return [member for member in members if member.lower().startswith("sha-256=")]
