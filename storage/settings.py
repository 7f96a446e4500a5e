"""Where rows and bytes are kept, and with which credentials. Prefix ``ENGINEFARM_``."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class StorageSettings(BaseSettings):
    """What every process of the control plane is told."""

    model_config = SettingsConfigDict(env_prefix="ENGINEFARM_", extra="ignore")

    database_url: SecretStr = Field(
        description="The database: postgresql+psycopg://user:password@host/name"
    )
    valkey_url: SecretStr = Field(description="Progress streams: redis://host:port/number")
    s3_bucket: str = Field(
        default="enginefarm", description="The bucket of models, datasets, engines and reports."
    )
    s3_endpoint: str | None = Field(
        default=None, description="The store's address, http://host:port; absent: AWS."
    )
    s3_public_endpoint: str | None = Field(
        default=None, description="What presigned URLs name, if nodes reach the bucket otherwise."
    )
    s3_region: str = Field(
        default="us-east-1", description="The bucket's region; stores other than AWS take any."
    )
    s3_access_key: str = Field(description="The id of the key that may read and write the bucket.")
    s3_secret_key: SecretStr = Field(description="The secret that belongs to that key.")
