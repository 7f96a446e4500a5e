"""Nodes: what they say they can do, and when they were last heard."""

from __future__ import annotations

from collections.abc import Sequence
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
) -> Node:
    """Keep a node under its name; one that enrols again gets a new credential."""
    values = {
        "credential_sha256": credential_sha256,
        "description": description,
        "queues": queues,
        "state": NodeState.ACTIVE,
        "last_seen_at": now(),
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


def mark_silent(session: Session, before: datetime) -> list[str]:
    """Put the nodes that were last heard before a moment offline; return their names."""
    rows = session.execute(
        update(Node)
        .where(Node.state != NodeState.OFFLINE, Node.last_seen_at < before)
        .values(state=NodeState.OFFLINE)
        .returning(Node.name)
    )
    return list(rows.scalars())
