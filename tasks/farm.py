"""What the steps work with: the database, the bucket, the streams, the signer, and the policy."""

from __future__ import annotations

from dataclasses import dataclass

from storage.database import Database
from storage.objects import Objects
from storage.progress import ProgressStreams
from storage.signing import StatementSigner


@dataclass(frozen=True)
class Policy:
    """The operator's numbers; seconds unless the name says otherwise."""

    lease_s: float = 900.0
    heartbeat_s: float = 2.0
    node_heartbeat_s: float = 10.0
    node_silent_s: float = 45.0
    max_attempts: int = 3
    node_faults: int = 5
    retry_backoff_s: float = 5.0
    decline_pause_s: float = 2.0
    ring_again_s: float = 15.0
    ageing_s: float = 600.0
    share_window_s: float = 3600.0
    sweep_every_s: float = 3600.0
    garbage_grace_s: float = 7 * 86_400.0
    upload_grace_s: float = 86_400.0
    verify_lease_s: float = 60.0
    reader_patience_s: float = 3600.0
    rings_kept_s: float = 86_400.0
    publish_lease_s: float = 15.0
    return_grace_s: float = 60.0
    pending_s: float = 7 * 86_400.0
    running_s: float = 8 * 3600.0
    silent_s: float = 900.0
    search_tool_wait_s: float = 600.0
    transfer_s: int = 3600
    log_tail_chars: int = 65_536


@dataclass(frozen=True)
class Farm:
    """One farm. The api has no signer; only the publisher signs."""

    database: Database
    objects: Objects
    progress: ProgressStreams
    policy: Policy = Policy()
    signer: StatementSigner | None = None
