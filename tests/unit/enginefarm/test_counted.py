"""One of a thing is said in the singular, none and several in the plural."""

from __future__ import annotations

import pytest

from enginefarm.counted import counted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 errors"), (1, "1 error"), (2, "2 errors"), (12, "12 errors")]
)
def test_the_noun_goes_with_the_count(count: int, said: str) -> None:
    assert counted(count, "error") == said


def test_a_noun_may_bring_its_plural_and_its_verb() -> None:
    assert counted(1, "entry", "entries") == "1 entry"
    assert counted(3, "entry", "entries") == "3 entries"
    assert counted(1, "weight holds", "weights hold") == "1 weight holds"
    assert counted(2, "weight holds", "weights hold") == "2 weights hold"
