"""What is due: its time is over, nobody needs it, and its operator does not keep it for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from storage.retention import Rule, Terms, Thing, is_due, setting_of
from storage.settings import RetentionSettings

NOW = datetime(2026, 11, 30, tzinfo=UTC)
OLD, LATELY = NOW - timedelta(days=100), NOW - timedelta(days=3)
TERMS = Terms({Rule.MODELS: 30})
THING = Thing(Rule.MODELS, "ten_1", ("key",), "a model", OLD)


@pytest.mark.parametrize(
    ("thing", "due"),
    [
        (THING, True),
        (replace(THING, since=LATELY), False),
        (replace(THING, uses=(OLD, LATELY)), False),
        (replace(THING, uses=(OLD, OLD)), True),
        (replace(THING, live=True), False),
        (replace(THING, referred=True), False),
        (replace(THING, since=NOW - timedelta(days=30)), False),
        (replace(THING, since=NOW - timedelta(days=30, seconds=1)), True),
    ],
)
def test_what_is_old_and_of_no_use_is_due(thing: Thing, due: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_due(thing, TERMS.before(Rule.MODELS, NOW)) is due


def test_what_is_kept_for_ever_is_never_due() -> None:
    assert Terms({Rule.MODELS: 0}).before(Rule.MODELS, NOW) is None
    assert Terms().before(Rule.LOGS, NOW) is None
    assert not is_due(THING, None)


def test_each_rule_has_its_setting_and_what_would_surprise_is_off() -> None:
    terms = RetentionSettings().terms()

    assert set(terms.days) == set(Rule)
    assert [rule for rule, days in terms.days.items() if days == 0] == [Rule.MODELS, Rule.DATASETS]
    fields = {f"ENGINEFARM_{name.upper()}" for name in RetentionSettings.model_fields}
    assert {setting_of(rule) for rule in Rule} == fields
