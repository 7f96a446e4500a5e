"""Where artifacts come from: what :func:`enginefarm.install.pull` needs of a farm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from enginefarm.state import ArtifactState


@dataclass(frozen=True)
class BlobPart:
    """Bytes of a blob from ``start`` on; ``start`` is None when the part asked for is refused."""

    start: int | None
    chunks: Iterator[bytes]


class ArtifactSource(Protocol):
    """A farm, or a mirror of one. Nothing that it says is believed unverified."""

    def state(self, digest: str) -> ArtifactState:
        """Return whether deployers may have the artifact."""
        ...

    def kept_back(self, digest: str) -> str | None:
        """Return why it is quarantined or was revoked, if it is so and this is known."""
        ...

    def manifest(self, digest: str) -> bytes:
        """Return the manifest's bytes."""
        ...

    def attestations(self, digest: str) -> list[bytes]:
        """Return the signed bundles about the artifact."""
        ...

    def open_blob(self, digest: str, start: int) -> AbstractContextManager[BlobPart]:
        """Open a blob from byte ``start``; a connection that breaks raises Unavailable."""
        ...
