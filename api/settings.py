"""What the API process is told from outside, under the prefix ``ENGINEFARM_``."""

from __future__ import annotations

from pydantic import Field, SecretStr

from api.limits import BodyLimits
from storage.settings import StorageSettings
from tasks.part_plan import UploadLimits
from tasks.settings import PolicySettings, ReaderSettings

_MIB = 1 << 20


class ApiSettings(StorageSettings, PolicySettings, ReaderSettings):
    """Settings of ``python -m api``."""

    host: str = Field(default="127.0.0.1", description="The address to listen on.")
    port: int = Field(
        default=8080, ge=0, le=65535, description="The port to listen on; 0 takes any."
    )
    enrolment_token: SecretStr = Field(
        default=SecretStr(""), description="With it a node may enrol; empty: no node may."
    )
    max_model_bytes: int = Field(
        default=2048 * _MIB, ge=1, description="Largest model, with its external data."
    )
    max_dataset_bytes: int = Field(
        default=1024 * _MIB, ge=1, description="Largest evaluation dataset as it is sent."
    )
    max_dataset_expanded_bytes: int = Field(
        default=4096 * _MIB, ge=1, description="Largest evaluation dataset once unpacked."
    )
    max_body_bytes: int = Field(
        default=_MIB, ge=1, description="Largest body of any other request of people."
    )
    max_worker_body_bytes: int = Field(
        default=16 * _MIB,
        ge=1,
        description="Largest body of a node's request; files go to the bucket.",
    )
    max_model_files: int = Field(
        default=1024, ge=1, description="Most files of one model: the ONNX file and external data."
    )
    max_upload_bytes: int = Field(
        default=256 << 30,
        ge=1,
        description="Largest model that comes in parts, all files together.",
    )
    upload_part_bytes: int = Field(
        default=64 * _MIB,
        ge=5 * _MIB,
        le=5 << 30,
        description="How large the parts of an upload are; S3 takes no smaller ones.",
    )
    direct_uploads: bool = Field(
        default=True, description="Parts go straight to the bucket; false: through the API."
    )
    max_readers: int = Field(
        default=2, ge=1, description="Uploads that are read at once, each by a process of its own."
    )
    reader_wait_s: float = Field(
        default=60.0, gt=0, description="How long an upload waits for its turn to be read."
    )
    presign_seconds: int = Field(
        default=300, ge=1, le=3600, description="How long the URL of a download holds."
    )
    database_connections: int = Field(
        default=16, ge=1, description="Connections to the database that this process keeps."
    )
    keep_alive_s: float = Field(
        default=15.0, gt=0, description="Between the comments that keep a quiet event stream open."
    )

    def upload_limits(self) -> UploadLimits:
        """Return the limits of uploads in parts."""
        return UploadLimits(
            part_bytes=self.upload_part_bytes,
            max_bytes=self.max_upload_bytes,
            max_files=self.max_model_files,
            url_seconds=self.transfer_s,
            direct=self.direct_uploads,
        )

    def body_limits(self) -> BodyLimits:
        """Return the limits of request bodies."""
        return BodyLimits(
            model=self.max_model_bytes,
            dataset=self.max_dataset_bytes,
            part=self.upload_limits().largest_part,
            worker=self.max_worker_body_bytes,
            other=self.max_body_bytes,
        )
