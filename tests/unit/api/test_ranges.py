"""Which bytes a range names, and what conditions come to."""

from __future__ import annotations

import pytest

from api.ranges import Span, Unsatisfiable, Verdict, judge, span_of

ETAG = '"sha256:aa"'


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-9", (0, 10)),
        ("bytes=3-", (3, 10)),
        ("bytes=3-100", (3, 10)),
        ("BYTES= 3-4 ", (3, 5)),
        ("bytes=-4", (6, 10)),
        ("bytes=-400", (0, 10)),
    ],
)
def test_one_range_names_its_bytes(text: str, span: tuple[int, int]) -> None:
    found = span_of(text, None, ETAG, 10)

    assert found == Span(*span, 10)
    assert found is not None
    assert found.content_range == f"bytes {span[0]}-{span[1] - 1}/10"


@pytest.mark.parametrize(
    "text", [None, "", "bytes=", "bytes=-", "bytes=5-3", "bytes=0-1,4-5", "lines=0-1", "bytes=a-b"]
)
def test_what_is_not_one_range_of_bytes_is_ignored(text: str | None) -> None:
    assert span_of(text, None, ETAG, 10) is None


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=-0"])
def test_a_range_outside_is_refused(text: str) -> None:
    with pytest.raises(Unsatisfiable):
        span_of(text, None, ETAG, 10)


def test_nothing_has_no_ranges() -> None:
    with pytest.raises(Unsatisfiable):
        span_of("bytes=-5", None, ETAG, 0)


def test_if_range_lets_a_range_through_only_for_the_same_bytes() -> None:
    assert span_of("bytes=0-1", ETAG, ETAG, 10) == Span(0, 2, 10)
    assert span_of("bytes=0-1", f"W/{ETAG}", ETAG, 10) is None
    assert span_of("bytes=0-1", '"sha256:bb"', ETAG, 10) is None


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "verdict"),
    [
        (None, None, Verdict.SEND),
        (ETAG, None, Verdict.SEND),
        ("*", None, Verdict.SEND),
        (f'"other", {ETAG}', None, Verdict.SEND),
        (f"W/{ETAG}", None, Verdict.PRECONDITION_FAILED),
        ('"other"', None, Verdict.PRECONDITION_FAILED),
        (None, ETAG, Verdict.NOT_MODIFIED),
        (None, f"W/{ETAG}", Verdict.NOT_MODIFIED),
        (None, "*", Verdict.NOT_MODIFIED),
        (None, '"other"', Verdict.SEND),
        ('"other"', ETAG, Verdict.PRECONDITION_FAILED),
    ],
)
def test_conditions(if_match: str | None, if_none_match: str | None, verdict: Verdict) -> None:
    assert judge(ETAG, if_match, if_none_match) is verdict
