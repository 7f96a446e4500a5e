"""Names of rows."""

from __future__ import annotations

import re
import time

import pytest

from storage.ids import new_id


@pytest.mark.parametrize("prefix", ["bld", "job", "nod", "key", "ten"])
def test_a_name_is_its_prefix_and_26_letters_that_are_hard_to_mistake(prefix: str) -> None:
    assert re.fullmatch(rf"{prefix}_[0-9a-hjkmnp-tv-z]{{26}}", new_id(prefix))


def test_later_names_sort_after_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [0, 1, 31, 32, 1_000_000, 1_795_000_000_000, 1_795_000_000_001, 9_999_999_999_999]
    names = []
    for moment in moments:
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment * 1_000_000)
        names.append(new_id("bld"))

    assert names == sorted(names)


def test_names_of_one_moment_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_000_000_000_000_000)

    assert len({new_id("job") for _ in range(1000)}) == 1000
