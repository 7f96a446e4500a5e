"""Nodes come, prove who they are, and say that they live."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import datetime, timedelta

import structlog

from enginefarm import __version__
from enginefarm.errors import Conflict, TooLarge, Unauthenticated
from enginefarm.state import NodeState
from storage import jobs, nodes
from storage.database import Session, now
from storage.models import Node
from tasks.farm import Farm, Policy
from tasks.messages import EnrolReply, EnrolRequest, NodeBeat, NodeBeatReply, NodeDescription
from tasks.routing import queues_served

_PARTS = 3
MOST_DESCRIPTION_BYTES = 128 << 10
_NOBODY = b"\0" * 32
_log = structlog.get_logger()


def enrol(farm: Farm, message: EnrolRequest) -> EnrolReply:
    """Take a node in, or back; its earlier credential no longer works.

    Whether it may enrol at all was decided by the enrolment token. A node that enrols again has
    started again: what it ran before is given to another attempt without waiting for the lease.

    Raises:
        TooLarge: it says more of itself than any node needs.
        Conflict: ``node_version_unsupported``, ``node_name_taken``.
    """
    _require_short(message.description)
    secret = secrets.token_hex(32)
    queues = queues_served(message.description)
    _require_fitting_version(message.description.farm_version)
    with farm.database.transaction() as session:
        before = _require_free_name(session, farm.policy, message)
        if before is not None:
            # Jobs first, then the node: in the order in which everybody locks them.
            _give_up(session, before, now(), [])
        row = nodes.enrol(
            session,
            message.name,
            hashlib.sha256(secret.encode()).digest(),
            message.description.model_dump(mode="json"),
            queues,
            former_sha256=_hash_of(message.previous) if message.previous else None,
        )
        node_id = row.id
    return EnrolReply(
        node_id=node_id,
        credential=f"en_{node_id}_{secret}",
        queues=queues,
        heartbeat_s=farm.policy.node_heartbeat_s,
    )


def _require_short(description: NodeDescription) -> None:
    """Refuse a description that is none: the farm reads those of all nodes again and again."""
    if len(description.model_dump_json()) > MOST_DESCRIPTION_BYTES:
        raise TooLarge(
            f"A node describes itself in more than {MOST_DESCRIPTION_BYTES} bytes.",
            why="One with eight GPUs needs a fiftieth of that.",
            fix="Bring the node to the farm's version.",
        )


def _require_fitting_version(theirs: str) -> None:
    """Refuse a node that is more than one minor version away: it would misunderstand its jobs."""
    ours = __version__
    pairs = [re.match(r"(\d+)\.(\d+)", text) for text in (theirs, ours)]
    if all(pairs):
        (a, b), (c, d) = [(int(m[1]), int(m[2])) for m in pairs if m is not None]
        if a == c and abs(b - d) <= 1:
            return
    raise Conflict(
        f"A node of version {theirs[:40]} cannot work for a farm of version {ours}.",
        code="node_version_unsupported",
        why="They may be one minor version apart, so that a farm is upgraded node by node.",
        fix=f"Bring the node to version {ours}.",
    )


def _require_free_name(session: Session, policy: Policy, message: EnrolRequest) -> Node | None:
    """Refuse a name under which another node lives; one that proves it is the same may return.

    Return the node that had the name, if any had.
    """
    there = nodes.named(session, message.name)
    if there is None or there.last_seen_at < now() - timedelta(seconds=policy.node_silent_s):
        return there
    previous = _hash_of(message.previous or "")
    # Its answer may have been lost: then it knows only the credential before.
    known = (there.credential_sha256, there.former_sha256 or _NOBODY)
    if not any(hmac.compare_digest(previous, kept) for kept in known):
        raise Conflict(
            f"A node called {message.name!r} lives already.",
            code="node_name_taken",
            why=f"It was heard at {there.last_seen_at:%H:%M:%S} UTC; two of one name would take "
            "each other's work.",
            fix="Give this one another ENGINEFARM_NODE_NAME. If it is the same machine without "
            f"its state folder, it may come back after {policy.node_silent_s:g} s of silence.",
        )
    return there


def _hash_of(credential: str) -> bytes:
    return hashlib.sha256(credential.rpartition("_")[2].encode()).digest()


def authenticate(farm: Farm, credential: str) -> str:
    """Return the id of the node whose credential this is.

    Raises:
        Unauthenticated: it is no node's (code ``node_unknown``).
    """
    parts = credential.split("_")
    well_formed = len(parts) == _PARTS and parts[0] == "en"
    with farm.database.transaction() as session:
        row = nodes.get(session, parts[1]) if well_formed else None
        kept = row.credential_sha256 if row is not None else _NOBODY
    given = hashlib.sha256(parts[-1].encode()).digest()
    if not hmac.compare_digest(given, kept) or row is None:
        raise Unauthenticated(
            "This is no node's credential.",
            code="node_unknown",
            why="The node was never enrolled, or has enrolled again since.",
            fix="Enrol with the enrolment token.",
        )
    return row.id


def beat(farm: Farm, node_id: str, message: NodeBeat) -> NodeBeatReply:
    """Note that a node lives, and what it can do if that has changed.

    Raises:
        TooLarge: it says more of itself than any node needs.
    """
    if message.description is not None:
        _require_short(message.description)
    with farm.database.transaction() as session:
        row = nodes.get(session, node_id)
        if row is None:
            raise Unauthenticated("This node is not enrolled.", code="node_unknown")
        # A claim that is just being made is not yet in the node's list.
        before = now() - timedelta(seconds=2 * farm.policy.node_heartbeat_s)
        _give_up(session, row, before, message.running)
        row.last_seen_at = now()
        if row.state is not NodeState.OUT_OF_SERVICE:
            row.state = NodeState.DRAINING if message.draining else NodeState.ACTIVE
        if message.description is not None:
            row.description = message.description.model_dump(mode="json")
            row.queues = list(queues_served(message.description))
        queues = [str(name) for name in row.queues]
        drain = row.state is NodeState.OUT_OF_SERVICE
    return NodeBeatReply(queues=queues, drain=drain)


def _give_up(session: Session, node: Node, started_before: datetime, running: list[str]) -> None:
    """End the leases of the jobs that a living node no longer has."""
    ended = jobs.end_leases(session, node.id, started_before, running)
    if ended:
        _log.warning("jobs_lost_by_node", node=node.name, count=ended)
