"""The random secrets of one data folder, made once and readable by their owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field

SECRETS = "secrets.json"


def _secret() -> str:
    return secrets.token_urlsafe(24)


def _access_key() -> str:
    return secrets.token_hex(10).upper()


class Credentials(BaseModel):
    """Every secret that the processes of one local farm share."""

    postgres_password: str = Field(default_factory=_secret)
    valkey_password: str = Field(default_factory=_secret)
    s3_access_key: str = Field(default_factory=_access_key)
    s3_secret_key: str = Field(default_factory=_secret)
    s3_internal_key: str = Field(
        default_factory=_secret, description="Between the parts of the object store."
    )
    enrolment_token: str = Field(default_factory=_secret)
    flower_user: str = "farm"
    flower_password: str = Field(default_factory=_secret)
    flower_cookie_secret: str = Field(default_factory=_secret)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the secrets of a data folder, making them the first time."""
        path = folder / SECRETS
        if path.exists():
            return cls.model_validate_json(path.read_bytes())
        made = cls()
        write_private(path, made.model_dump_json(indent=1))
        return made


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    part.replace(path)
