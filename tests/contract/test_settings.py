"""Every setting is documented where an operator looks for it, in words that say something."""

from __future__ import annotations

import re

import pytest
from pydantic_settings import BaseSettings

from localfarm.settings_page import PAGE, SECTIONS, page

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


def words(text: str) -> set[str]:
    """Return the words of a text or a name."""
    return set(re.findall(r"[^\W_]+", text.lower()))
