"""Where rows and bytes are kept, and with which credentials. Prefix ``ENGINEFARM_``."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from storage.retention import Rule, Terms


class StorageSettings(BaseSettings):
    """What every process of the control plane is told."""

    model_config = SettingsConfigDict(
        env_prefix="ENGINEFARM_", extra="ignore", hide_input_in_errors=True
    )

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


class RetentionSettings(BaseSettings):
    """For how many days things are kept that the farm could do without; 0: for ever."""

    model_config = SettingsConfigDict(
        env_prefix="ENGINEFARM_", extra="ignore", hide_input_in_errors=True
    )

    logs_kept_days: float = Field(
        default=90.0, ge=0, description="Logs of attempts, from their end; 0: for ever."
    )
    results_kept_days: float = Field(
        default=30.0,
        ge=0,
        description="What targets made that ended unpublished, from the last build that used it; "
        "0: for ever.",
    )
    twins_kept_days: float = Field(
        default=30.0,
        ge=0,
        description="What was built only to measure an engine beside it, from the last build that "
        "used it; 0: for ever.",
    )
    quarantined_kept_days: float = Field(
        default=90.0, ge=0, description="Engines of quarantined artifacts; 0: for ever."
    )
    candidates_kept_days: float = Field(
        default=7.0,
        ge=0,
        description="What candidates have made that their search has not chosen, from its end; "
        "0: for ever.",
    )
    models_kept_days: float = Field(
        default=0.0,
        ge=0,
        description="Models that no build uses and no published artifact has, from their last use; "
        "0: for ever.",
    )
    datasets_kept_days: float = Field(
        default=0.0, ge=0, description="Datasets, by the same rule as models; 0: for ever."
    )
    events_kept_days: float = Field(
        default=90.0, ge=0, description="Events of builds, from their end; 0: for ever."
    )

    def terms(self) -> Terms:
        """Return the rules as the decision wants them."""
        return Terms({rule: getattr(self, f"{rule}_kept_days") for rule in Rule})
