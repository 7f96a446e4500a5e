"""What is said of a plugin library that a backend does not load. Pure."""

from __future__ import annotations

from pathlib import Path

from enginefarm.errors import JobFailed
from enginefarm.state import Blame


def refused(backend: str, library: Path, said: str) -> JobFailed:
    """Return the refusal; the node has announced that the library loads, so it is its fault."""
    return JobFailed(
        f"{backend} does not load the plugin {library.name}.",
        blame=Blame.NODE,
        code="plugin_refused",
        why=f"It says: {said}" if said else "It gives no reason.",
        fix="Build the library for the backend's version on this node, and start the node again.",
    )
