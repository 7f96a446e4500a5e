"""A job's log keeps its beginning and its end, and says what it cut."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from workers.joblog import NEWS_BYTES, JobLog


def test_a_short_log_is_kept_whole() -> None:
    log = JobLog(1000)
    log.write(b"one\n")
    log.write(b"two\n")
    log.say("three")
    assert log.render() == b"one\ntwo\nenginefarm: three\n"


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=40), st.integers(2, 200))
def test_the_cap_holds_and_the_cut_is_said(pieces: list[bytes], cap: int) -> None:
    log, whole = JobLog(cap), b"".join(pieces)
    for piece in pieces:
        log.write(piece)
    kept = log.render()
    cut = re.search(rb"\nenginefarm: (\d+) bytes of the log were cut here\n", kept)
    if cut is None:
        assert kept == whole
    else:
        head, tail = kept[: cut.start()], kept[cut.end() :]
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) + int(cut[1]) == len(whole)
        assert len(head) + len(tail) <= cap


def test_news_are_what_came_since_the_mark() -> None:
    log = JobLog(1 << 20)
    log.write(b"old ")
    news, mark = log.since(0)
    assert news == "old "
    assert log.since(mark) == ("", mark)
    log.write(b"new")
    assert log.since(mark) == ("new", mark + 3)


def test_much_news_is_shortened_to_its_end() -> None:
    log = JobLog(1 << 20)
    log.write(b"a" * NEWS_BYTES + b"end")
    news, _ = log.since(0)
    assert len(news) == NEWS_BYTES
    assert news.endswith("end")


def test_news_are_right_across_the_cut_of_the_head() -> None:
    log = JobLog(20)
    log.write(b"0123456789")
    log.write(b"abc")
    assert log.since(8)[0] == "89abc"


def test_bytes_that_are_no_text_do_not_break_the_news() -> None:
    log = JobLog(100)
    log.write(b"\xff\xfe ok")
    assert log.since(0)[0].endswith(" ok")
