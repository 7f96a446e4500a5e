"""Every setting is documented where an operator looks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from api.settings import ApiSettings
from localfarm.settings import LocalFarmSettings
from storage.settings import StorageSettings
from tasks.settings import ControlSettings
from workers.settings import NodeSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "settings.md"


@pytest.mark.parametrize(
    "settings", [StorageSettings, ApiSettings, ControlSettings, NodeSettings, LocalFarmSettings]
)
def test_every_setting_has_a_row(settings: type[BaseSettings]) -> None:
    prefix = settings.model_config.get("env_prefix", "")
    page = PAGE.read_text()

    missing = [
        name
        for field in settings.model_fields
        if f"| `{(name := f'{prefix}{field}'.upper())}` |" not in page
    ]

    assert missing == []
