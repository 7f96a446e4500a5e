"""What the local farm is told, and what it passes on."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from localfarm.settings import LocalFarmSettings, inherited_environment


def test_children_inherit_nothing_that_was_meant_for_another_farm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINEFARM_DATABASE_URL", "postgresql://elsewhere")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")

    environment = inherited_environment()

    assert environment["SOMETHING_ELSE"] == "kept"
    assert not [name for name in environment if name.startswith("ENGINEFARM_")]


def test_a_policy_is_read_by_the_names_of_the_control_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINEFARM_LOCAL_POLICY", '{"lease_s": 6}')

    assert LocalFarmSettings().policy == {"lease_s": 6}


def test_a_misspelt_policy_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEFARM_LOCAL_POLICY", '{"leas_s": 6}')

    with pytest.raises(ValidationError, match="leas_s"):
        LocalFarmSettings()
