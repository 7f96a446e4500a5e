"""Every setting is documented where an operator looks for it, in words that say something."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError
from pydantic_settings import BaseSettings

from enginefarm.logs import settings_or_leave
from localfarm.settings_page import PAGE, SECTIONS, page
from workers.settings import NodeSettings

ALL = [settings for _, settings, _ in SECTIONS]
LEAST_WORDS = 4


def test_the_page_is_what_the_settings_say() -> None:
    """If this fails: ``python -m localfarm.settings_page``."""
    assert PAGE.read_text("utf-8") == page()


def test_the_page_shows_nothing_of_how_defaults_are_made() -> None:
    shown = page()

    assert "Undefined" not in shown
    assert "None" not in shown
    assert "factory" not in shown


@pytest.mark.parametrize("settings", ALL)
def test_every_setting_has_a_row(settings: type[BaseSettings]) -> None:
    prefix = settings.model_config.get("env_prefix", "")
    names = {f"{prefix}{field}".upper() for field in settings.model_fields}

    assert {name for name in names if f"| `{name}` |" not in page()} == set()


@pytest.mark.parametrize("settings", ALL)
def test_every_setting_is_described_by_more_than_its_name(settings: type[BaseSettings]) -> None:
    hollow = {
        name: field.description
        for name, field in settings.model_fields.items()
        if len(words(field.description or "") - words(name)) < LEAST_WORDS
    }

    assert hollow == {}


@pytest.mark.parametrize("settings", ALL)
def test_what_is_wrong_in_settings_is_said_without_what_they_were_set_to(
    settings: type[BaseSettings],
) -> None:
    told = {name: {"pass": "word"} for name in settings.model_fields}
    with pytest.raises(ValidationError) as refused:
        settings.model_validate(told)

    assert "word" not in str(refused.value)
    name, *_ = (row["loc"][0] for row in refused.value.errors())
    assert str(name) in str(refused.value)


def test_a_process_ends_with_the_variables_that_it_cannot_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NodeSettings.model_fields:
        monkeypatch.delenv(f"ENGINEFARM_{name.upper()}", raising=False)
    monkeypatch.setenv("ENGINEFARM_ENROLMENT_TOKEN", "pass-word")
    monkeypatch.setenv("ENGINEFARM_SLOTS", "none")

    with pytest.raises(SystemExit) as ended:
        settings_or_leave(NodeSettings)

    said = capsys.readouterr()
    text = said.out + said.err
    assert ended.value.code == 2
    assert "pass-word" not in text
    for name in ("ENGINEFARM_URL", "ENGINEFARM_BROKER_URL", "ENGINEFARM_SLOTS"):
        assert name in text
    assert "ENGINEFARM_ENROLMENT_TOKEN" not in text


def words(text: str) -> set[str]:
    """Return the words of a text or a name."""
    return set(re.findall(r"[^\W_]+", text.lower()))
