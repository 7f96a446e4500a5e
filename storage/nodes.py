"""Nodes: what they say they can do, and when they were last heard."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from enginefarm.state import NodeState
from storage.database import Session, now
from storage.ids import new_id
from storage.models import Node


def enrol(
    session: Session,
    name: str,
    credential_sha256: bytes,
    description: dict[str, Any],
    queues: list[str],
    *,
    former_sha256: bytes | None,
) -> Node:
    """Keep a node under its name; one that enrols again gets a new credential.

    ``former_sha256`` is of the credential that it showed: if this answer, and the next, are lost it
    knows no other.
    """
    values = {
        "former_sha256": former_sha256,
        "credential_sha256": credential_sha256,
        "description": description,
        "queues": queues,
        "state": NodeState.ACTIVE,
        "last_seen_at": now(),
        "faults": 0,
        "bucket_faults": 0,
        "note": None,
    }
    session.execute(
        insert(Node)
        .values(id=new_id("nod").removeprefix("nod_"), name=name, **values)
        .on_conflict_do_update(index_elements=[Node.name], set_=values)
    )
    return session.scalars(
        select(Node).where(Node.name == name).execution_options(populate_existing=True)
    ).one()


def get(session: Session, node_id: str) -> Node | None:
    """Return a node."""
    return session.get(Node, node_id)


def live(session: Session) -> Sequence[Node]:
    """Return the nodes that take work."""
    return session.scalars(
        select(Node).where(Node.state == NodeState.ACTIVE).order_by(Node.name)
    ).all()


def everyone(session: Session) -> Sequence[Node]:
    """Return every node that ever enrolled."""
    return session.scalars(select(Node).order_by(Node.name)).all()


def named(session: Session, name: str) -> Node | None:
    """Return the node of that name."""
    return session.scalar(select(Node).where(Node.name == name))


def lock(session: Session, node_id: str) -> Node | None:
    """Return a node's row as it is now, locked until the transaction ends."""
    return session.scalar(
        select(Node)
        .where(Node.id == node_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def blame(session: Session, node_id: str, limit: int, note: str) -> bool:
    """Count a fault of a node; tell whether it was the one that puts it out of service."""
    node = lock(session, node_id)
    if node is None:
        return False
    node.faults += 1
    if node.faults < limit or node.state is NodeState.OUT_OF_SERVICE:
        return False
    node.state = NodeState.OUT_OF_SERVICE
    node.note = note
    return True


def without_bucket(session: Session, node_id: str, limit: int, note: str) -> bool:
    """Count that a node could not reach a bucket that answers; tell if that ends its service.

    It does not while every other node that takes work fares likewise: then it is the way to the
    bucket that nodes share.
    """
    node = lock(session, node_id)
    if node is None:
        return False
    node.bucket_faults += 1
    if node.bucket_faults < limit or node.state is NodeState.OUT_OF_SERVICE:
        return False
    others = select(Node.bucket_faults).where(Node.state == NodeState.ACTIVE, Node.id != node_id)
    shared = session.scalars(others).all()
    if shared and all(shared):
        return False
    node.state = NodeState.OUT_OF_SERVICE
    node.note = note
    return True


def forgive(session: Session, node_ids: Collection[str]) -> None:
    """Forget the faults of nodes that have shown that they work, or were not at fault."""
    session.execute(
        update(Node)
        .where(
            Node.id.in_(node_ids),
            (Node.faults > 0) | (Node.bucket_faults > 0),
            Node.state != NodeState.OUT_OF_SERVICE,
        )
        .values(faults=0, bucket_faults=0)
        .execution_options(synchronize_session=False)
    )


def mark_silent(session: Session, before: datetime) -> list[str]:
    """Put the nodes that were last heard before a moment offline; return their names."""
    rows = session.execute(
        update(Node)
        .where(Node.state.in_((NodeState.ACTIVE, NodeState.DRAINING)), Node.last_seen_at < before)
        .values(state=NodeState.OFFLINE)
        .returning(Node.name)
    )
    return list(rows.scalars())
