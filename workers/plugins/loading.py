"""Load a job's libraries into its child, before anything else is done with what they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from workers.backends.base import Backend, TakesPlugins


def load(backend: Backend, libraries: Sequence[Path]) -> None:
    """Have a backend load libraries, in the order in which the recipe names them.

    Raises:
        JobFailed: it loads none, or not one of these (code ``plugin_refused``).
    """
    if not libraries:
        return
    if not isinstance(backend, TakesPlugins):
        raise JobFailed(
            f"{backend.name} loads no plugins.",
            blame=Blame.FARM,
            code="plugin_refused",
            fix="Leave the plugins out for this backend.",
        )
    for library in libraries:
        backend.take_plugin(library)


def names_of(libraries: Mapping[str, Sequence[Path]]) -> str:
    """Return which libraries are loaded, for a job's log."""
    return "; ".join(
        f"{backend}: {', '.join(row.name for row in rows)}" for backend, rows in libraries.items()
    )
