"""Where rows and bytes are kept, and with which credentials. Prefix ``ENGINEFARM_``."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class StorageSettings(BaseSettings):
    """What every process of the control plane is told."""

    model_config = SettingsConfigDict(env_prefix="ENGINEFARM_", extra="ignore")

    database_url: SecretStr = Field(description="postgresql+psycopg://user:password@host/name")
    valkey_url: SecretStr = Field(description="Progress streams: redis://host:port/number")
    s3_bucket: str = "enginefarm"
    s3_endpoint: str | None = Field(default=None, description="Absent: AWS.")
    s3_public_endpoint: str | None = Field(
        default=None, description="What presigned URLs name, if nodes reach the bucket otherwise."
    )
    s3_region: str = "us-east-1"
    s3_access_key: str
    s3_secret_key: SecretStr
