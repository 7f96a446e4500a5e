"""Names that people give to what they send: kept as data, and never taken for a path."""

from __future__ import annotations

import re

from enginefarm.errors import InvalidRequest

_MAX_NAME = 128
_UNSAFE = re.compile(r"[/\\:\x00-\x1f\x7f]")


def require_plain(name: str, what: str) -> str:
    """Return ``name`` if nobody could take it for a path or hide in it.

    Raises:
        InvalidRequest: code ``bad_file_name``.
    """
    plain = name.isprintable() and not _UNSAFE.search(name)
    visible = not name.startswith((".", "-", " ")) and ".." not in name
    if plain and visible and 0 < len(name) <= _MAX_NAME:
        return name
    raise InvalidRequest(
        f"{name[:80]!r} cannot be used as {what}.",
        code="bad_file_name",
        why=f"A name is at most {_MAX_NAME} printable characters, without folders or colons, and "
        "does not start with a dot, a dash or a space.",
        fix="Give a plain name such as detector.onnx.",
    )


def stem_of(name: str, suffix: str) -> str:
    """Return a file's name without ``suffix``, if anything is left of it."""
    return (
        name[: -len(suffix)] if name.lower().endswith(suffix) and name[1 : -len(suffix)] else name
    )
