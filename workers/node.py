"""A node's life: what it says of itself, its credential on disk, and its beat.

The state folder is readable by its owner alone. The credential is the node's own, given at
enrolment; the enrolment token is never written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from importlib.metadata import version
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict

from enginefarm.errors import FarmError, Unauthenticated
from enginefarm.state import Stage
from tasks.messages import (
    EnrolReply,
    EnrolRequest,
    NodeBeat,
    NodeBeatReply,
    NodeDescription,
)
from workers.farm_api import WorkerApi
from workers.probe import Probe

STATE_FILE = "node.json"
FOLDER_MODE, FILE_MODE = 0o700, 0o600
log = structlog.get_logger(__name__)


class NodeState(BaseModel):
    """What a node remembers of its enrolment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    name: str
    node_id: str
    credential: str
    queues: list[str]
    heartbeat_s: float


def describe(
    found: Probe,
    stages: Sequence[Stage],
    slots: int,
    job_memory_bytes: int | None = None,
    *,
    unmeasured: Collection[str] = (),
) -> NodeDescription:
    """Return what the node says of itself; it measures nothing with the backends ``unmeasured``."""
    return NodeDescription(
        hostname=found.hostname,
        cpu=found.cpu,
        cores=found.cores,
        memory_bytes=found.memory_bytes,
        devices=found.devices,
        backends=[
            row.model_copy(update={"measures": []}) if row.name in unmeasured else row
            for row in found.backends
        ],
        stages=list(stages),
        slots=slots,
        job_memory_bytes=job_memory_bytes,
        reads_refined_targets=True,
        farm_version=version("enginefarm"),
        compares=True,
    )


def remembered(folder: Path) -> str | None:
    """Return the credential of an earlier life, if the state folder has one."""
    try:
        return NodeState.model_validate_json((folder / STATE_FILE).read_bytes()).credential
    except (OSError, ValueError):
        return None


def enrol(
    url: str,
    token: str,
    name: str,
    description: NodeDescription,
    *,
    patience_s: float,
    previous: str | None = None,
) -> NodeState:
    """Join the farm, waiting for it to come up.

    Raises:
        Unauthenticated: the enrolment token is not the farm's.
        Unavailable: the farm did not answer in time.
        Conflict: a node of this name lives already (code ``node_name_taken``).
    """
    api = WorkerApi(url, token)
    try:
        request = EnrolRequest(name=name, description=description, previous=previous)
        reply: EnrolReply = api.enrol(request, patience_s=patience_s)
    finally:
        api.close()
    log.info("node_enrolled", node=reply.node_id, name=name, queues=reply.queues)
    return NodeState(
        url=url,
        name=name,
        node_id=reply.node_id,
        credential=reply.credential,
        queues=reply.queues,
        heartbeat_s=reply.heartbeat_s,
    )


def save(state: NodeState, folder: Path) -> Path:
    """Write the state, whole, for its owner alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    folder.chmod(FOLDER_MODE)
    part = folder / f"{STATE_FILE}.part"
    part.unlink(missing_ok=True)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(fd, "w") as stream:
        stream.write(state.model_dump_json())
    return part.replace(folder / STATE_FILE)


class NodeBeatThread:
    """Say regularly that the node lives; hand on what the farm wants of it."""

    def __init__(
        self,
        api: WorkerApi,
        state: NodeState,
        description: NodeDescription,
        running: Callable[[], list[str]],
        obey: Callable[[NodeBeatReply], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        """``running`` tells which jobs run; ``obey`` gets every answer; ``leave`` ends the node."""
        self._api = api
        self._interval = state.heartbeat_s
        self._description: NodeDescription | None = description
        self._running = running
        self._obey = obey
        self._leave = leave
        self._ended = threading.Event()
        self._draining = False
        self._one = threading.RLock()
        """Beats come from several threads, and what the farm answers is obeyed in order."""
        self._thread = threading.Thread(target=self._beat_on, name="node-beat", daemon=True)

    def start(self) -> None:
        """Beat until stopped."""
        self._thread.start()

    def describe(self, description: NodeDescription) -> None:
        """Tell the farm at once that the node is another than it said."""
        self._description = description
        self.beat()

    def drain(self) -> None:
        """Say from now on that no more work is wanted, starting at once."""
        self._draining = True
        self.beat()

    def stop(self) -> None:
        """Stop beating."""
        self._ended.set()
        self._thread.join(timeout=15)

    def _beat_on(self) -> None:
        self.beat()
        while not self._ended.wait(self._interval):
            self.beat()

    def beat(self) -> None:
        """Beat once; a beat that does not get through is followed by the next."""
        with self._one:
            self._beat()

    def _beat(self) -> None:
        said = self._description
        message = NodeBeat(description=said, running=self._running(), draining=self._draining)
        try:
            reply = self._api.beat(message)
        except Unauthenticated as error:
            # Another enrolled under this name: to listen on would only swallow its rings.
            log.error("node_no_longer_enrolled", code=error.code, why=error.why)  # noqa: TRY400
            self._leave()
            return
        except FarmError as error:
            log.warning("node_beat_missed", code=error.code, why=error.why)
            return
        if self._description is said:  # another may have come meanwhile
            self._description = None
        self._obey(reply)
