"""What the local farm is told from outside: where its data lies, and the environment it inherits.

Children get the person's own environment without the farm's variables: what a process of the
local farm is told, it is told by the local farm alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "ENGINEFARM_"
ROOT = Path(__file__).resolve().parent.parent


class LocalFarmSettings(BaseSettings):
    """Settings of ``python -m localfarm``."""

    model_config = SettingsConfigDict(env_prefix=f"{PREFIX}LOCAL_", hide_input_in_errors=True)

    folder: Path = Field(default=ROOT / ".farm", description="Where the local farm keeps its data.")
    ready_seconds: float = Field(
        default=60.0, gt=0, description="How long a starting farm waits for its processes."
    )
    policy: dict[str, float] = Field(
        default={}, description='The policy of its API and control loops: {"lease_s": 6}.'
    )

    plugins: Path | None = Field(
        default=None, description="The folder of plugin libraries of its node."
    )
    restarts: int = Field(default=5, ge=0, description="Of one process within a minute.")
    fault_dir: Path | None = Field(
        default=None, description="A test's folder: see tasks.fault_points."
    )

    @field_validator("policy")
    @classmethod
    def _names_are_known(cls, value: dict[str, float]) -> dict[str, float]:
        if value:
            from tasks.settings import PolicySettings

            unknown = set(value) - set(PolicySettings.model_fields)
            if unknown:
                message = f"there is no policy number {min(unknown)!r}"
                raise ValueError(message)
        return value


def inherited_environment() -> dict[str, str]:
    """Return the environment for a child, without anything meant for another farm."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    return kept | {"PYTHONUNBUFFERED": "1"}
