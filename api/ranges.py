"""Conditional and range requests on bytes that never change (RFC 9110). Pure.

A range that is malformed, in another unit or one of several is ignored, as the standard allows;
one that lies outside is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

_ONE = re.compile(r"bytes=[ \t]*(?P<first>[0-9]{0,20})-(?P<last>[0-9]{0,20})[ \t]*", re.IGNORECASE)
_TAGS = re.compile(r'(?:W/)?"[^"]*"')


class Verdict(Enum):
    """What the conditions of a request come to."""

    SEND = "send"
    NOT_MODIFIED = "not modified"
    PRECONDITION_FAILED = "precondition failed"


class Unsatisfiable(Exception):
    """The range lies outside of the bytes."""


@dataclass(frozen=True)
class Span:
    """The bytes ``start`` to ``end``, ``end`` not included, of ``size``."""

    start: int
    end: int
    size: int

    @property
    def length(self) -> int:
        """How many bytes."""
        return self.end - self.start

    @property
    def content_range(self) -> str:
        """The ``Content-Range`` header."""
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


def judge(etag: str, if_match: str | None, if_none_match: str | None) -> Verdict:
    """Weigh ``If-Match``, then ``If-None-Match``; ``etag`` is strong and quoted."""
    if if_match is not None and not _names(if_match, etag, weak=False):
        return Verdict.PRECONDITION_FAILED
    if if_none_match is not None and _names(if_none_match, etag, weak=True):
        return Verdict.NOT_MODIFIED
    return Verdict.SEND


def span_of(text: str | None, if_range: str | None, etag: str, size: int) -> Span | None:
    """Return the one range that is asked for, or None to send everything.

    Raises:
        Unsatisfiable: the range lies outside.
    """
    match = _ONE.fullmatch(text) if text else None
    if match is None or (if_range is not None and if_range.strip() != etag):
        return None
    first, last = match["first"], match["last"]
    if not first:
        return _suffix(last, size)
    start = int(first)
    end = min(int(last) + 1, size) if last else size
    if last and int(last) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Span(start, end, size)


def _suffix(last: str, size: int) -> Span | None:
    if not last:
        return None
    if int(last) == 0 or size == 0:
        raise Unsatisfiable
    return Span(max(0, size - int(last)), size, size)


def _names(header: str, etag: str, *, weak: bool) -> bool:
    if header.strip() == "*":
        return True
    tags = _TAGS.findall(header)
    return etag in ([tag.removeprefix("W/") for tag in tags] if weak else tags)
