"""Nodes come, prove who they are, and say that they live."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from enginefarm.errors import Unauthenticated
from enginefarm.state import NodeState
from storage import nodes
from storage.database import now
from tasks.farm import Farm
from tasks.messages import EnrolReply, EnrolRequest, NodeBeat, NodeBeatReply
from tasks.routing import queues_served

_PARTS = 3
_NOBODY = b"\0" * 32


def enrol(farm: Farm, message: EnrolRequest) -> EnrolReply:
    """Take a node in, or back; its earlier credential no longer works.

    Whether it may enrol at all was decided by the enrolment token.
    """
    secret = secrets.token_hex(32)
    queues = queues_served(message.description)
    with farm.database.transaction() as session:
        row = nodes.enrol(
            session,
            message.name,
            hashlib.sha256(secret.encode()).digest(),
            message.description.model_dump(mode="json"),
            queues,
        )
        node_id = row.id
    return EnrolReply(
        node_id=node_id,
        credential=f"en_{node_id}_{secret}",
        queues=queues,
        heartbeat_s=farm.policy.node_heartbeat_s,
    )


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
    """Note that a node lives, and what it can do if that has changed."""
    with farm.database.transaction() as session:
        row = nodes.get(session, node_id)
        if row is None:
            raise Unauthenticated("This node is not enrolled.", code="node_unknown")
        row.last_seen_at = now()
        row.state = NodeState.DRAINING if message.draining else NodeState.ACTIVE
        if message.description is not None:
            row.description = message.description.model_dump(mode="json")
            row.queues = list(queues_served(message.description))
        queues = [str(name) for name in row.queues]
    return NodeBeatReply(queues=queues)
