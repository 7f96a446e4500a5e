"""What the control loops are told, and the policy that the api shares. Prefix ``ENGINEFARM_``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from intake.reader import Limits
from storage.settings import RetentionSettings, StorageSettings
from tasks.farm import Policy


class PolicySettings(BaseSettings):
    """The operator's numbers; see :class:`tasks.farm.Policy`. Seconds unless named otherwise."""

    model_config = SettingsConfigDict(
        env_prefix="ENGINEFARM_", extra="ignore", hide_input_in_errors=True
    )

    lease_s: float = Field(
        default=900.0, gt=0, description="A job that was unheard for so long goes to another node."
    )
    heartbeat_s: float = Field(
        default=2.0, gt=0, description="Between a running job's beats; a cancel is heard with one."
    )
    node_heartbeat_s: float = Field(
        default=10.0, gt=0, description="Between the beats by which a node says that it lives."
    )
    node_silent_s: float = Field(
        default=45.0, gt=0, description="A node unheard for so long is offline."
    )
    max_attempts: int = Field(
        default=3, ge=1, description="Attempts of one job before it fails for good."
    )
    node_faults: int = Field(
        default=5, ge=1, description="Failures in a row, of its own fault: out of service."
    )
    retry_backoff_s: float = Field(
        default=5.0, ge=0, description="Wait before the next attempt; doubled with each failure."
    )
    decline_pause_s: float = Field(
        default=2.0,
        ge=0,
        description="How long a job that a node declined waits before it is announced again.",
    )
    ring_again_s: float = Field(
        default=15.0,
        gt=0,
        description="A queued job that nobody has claimed is announced again after so long.",
    )
    ageing_s: float = Field(
        default=600.0, gt=0, description="Waiting so long makes a job one priority more urgent."
    )
    share_window_s: float = Field(
        default=3600.0, gt=0, description="Node time within it decides whose turn it is."
    )
    rings_kept_s: float = Field(
        default=86_400.0,
        gt=0,
        description="How long sent announcements are kept, for looking back.",
    )
    publish_lease_s: float = Field(
        default=15.0, gt=0, description="A publisher that died is followed after so long."
    )
    return_grace_s: float = Field(
        default=60.0,
        ge=0,
        description="After the API or the loops were away, nodes may report for so long before "
        "leases that ran out meanwhile count as lost.",
    )
    pending_s: float = Field(
        default=604_800.0, gt=0, description="Longest time of a job in a queue; then it expires."
    )
    running_s: float = Field(
        default=28_800.0, gt=0, description="Longest time of one attempt, from claim to end."
    )
    silent_s: float = Field(
        default=900.0,
        gt=0,
        description="Longest time of an attempt without a word from its process.",
    )
    search_tool_wait_s: float = Field(
        default=600.0,
        ge=0,
        description="A search that has tried all but what no live node has the tool for waits so "
        "long for one, and ends without.",
    )
    sweep_every_s: float = Field(
        default=3600.0, gt=0, description="Rest between two searches of the bucket for garbage."
    )
    garbage_grace_s: float = Field(
        default=604_800.0,
        ge=3600,
        description="Bytes that nothing refers to are marked, and removed, after so long each.",
    )
    upload_grace_s: float = Field(
        default=86_400.0,
        ge=3600,
        description="An upload in parts of which nothing is heard for so long is given up.",
    )
    verify_lease_s: float = Field(
        default=60.0,
        gt=0,
        description="An upload whose verifier died is taken up by another after so long.",
    )
    reader_patience_s: float = Field(
        default=3600.0,
        ge=0,
        description="An upload in parts that no reader can be started for fails after so long.",
    )
    transfer_s: int = Field(
        default=3600, ge=60, description="How long the presigned URLs of a job hold."
    )
    log_tail_chars: int = Field(
        default=65_536,
        ge=1024,
        description="How much of a running job's log can be read before it ends.",
    )

    def policy(self) -> Policy:
        """Return the numbers as the rules want them."""
        return Policy(**{field.name: getattr(self, field.name) for field in fields(Policy)})


class ReaderSettings(BaseSettings):
    """What the process may use that reads one upload."""

    model_config = SettingsConfigDict(
        env_prefix="ENGINEFARM_", extra="ignore", hide_input_in_errors=True
    )

    spool_dir: Path | None = Field(
        default=None, description="Where uploads wait to be checked; absent: the system's."
    )
    reader_memory_bytes: int = Field(
        default=512 << 20,
        ge=4 << 20,
        description="Memory for reading one upload, above an interpreter's and a mapped model.",
    )
    reader_cpu_s: int = Field(
        default=60, ge=1, description="Longest computing time for reading one upload."
    )
    reader_s: float = Field(
        default=180.0, gt=0, description="Longest time for reading one upload, start and all."
    )

    def reader_limits(self) -> Limits:
        """Return the numbers as the reader wants them."""
        return Limits(
            memory_bytes=self.reader_memory_bytes, cpu_s=self.reader_cpu_s, wall_s=self.reader_s
        )


class ControlSettings(StorageSettings, PolicySettings, ReaderSettings, RetentionSettings):
    """Settings of ``python -m tasks``."""

    broker_url: SecretStr = Field(description="Celery's broker: redis://host:port/number")
    signing_key_uri: str = Field(
        description="The signing key: file2:/path/to/key.pem, awskms:…, hsm:…"
    )
    signing_public_key: Path = Field(description="The public half of the signing key: a PEM file.")
    builder_id: str = Field(
        default="https://enginefarm.invalid/builders/control/v1",
        description="Who signs, as deployers see it; a URI of the operator's own.",
    )
    verifiers: int = Field(
        default=2, ge=1, description="Uploads in parts that are read again and hashed at once."
    )
    health_dir: Path | None = Field(
        default=None, description="Each loop touches a file here while it lives."
    )
