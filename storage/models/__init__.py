"""The rows, gathered: who uses one takes it from here, and migrations compare all of them.

Every row that belongs to somebody carries its tenant.
"""

from storage.models.base import Base
from storage.models.catalogue import (
    ApiKey,
    Blob,
    Dataset,
    Expired,
    Garbage,
    Model,
    Node,
    Pulse,
    RetentionRound,
    Tenant,
)
from storage.models.release import Artifact, ArtifactFile, Attestation, SigningKey
from storage.models.searches import Candidate, Search
from storage.models.timing import TimingCache, TimingSnapshot, TimingUse
from storage.models.uploads import Upload, UploadPart
from storage.models.work import Attempt, Build, Event, Job, Outbox, Peak

__all__ = [
    "ApiKey",
    "Artifact",
    "ArtifactFile",
    "Attempt",
    "Attestation",
    "Base",
    "Blob",
    "Build",
    "Candidate",
    "Dataset",
    "Event",
    "Expired",
    "Garbage",
    "Job",
    "Model",
    "Node",
    "Outbox",
    "Peak",
    "Pulse",
    "RetentionRound",
    "Search",
    "SigningKey",
    "Tenant",
    "TimingCache",
    "TimingSnapshot",
    "TimingUse",
    "Upload",
    "UploadPart",
]
