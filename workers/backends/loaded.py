"""The plugin libraries that a process has loaded, and what is said of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding
from enginefarm.state import Blame

MISSING = "unsupported_operator"
ANOTHER = "Name the plugin that has it."
_SHOWN = 20


class Loaded(NamedTuple):
    """A library, and the operators that it adds; None where the backend cannot tell."""

    library: Path
    operators: Sequence[str] | None = None


def refused(backend: str, library: Path, said: str) -> JobFailed:
    """Return the refusal of a library; the node has announced that it loads: it is its fault."""
    return JobFailed(
        f"{backend} does not load the plugin {library.name}.",
        blame=Blame.NODE,
        code="plugin_refused",
        why=f"It says: {said}" if said else "It gives no reason.",
        fix="Build the library for the backend's version on this node, and start the node again.",
    )


def nor_in(plugins: Sequence[Loaded]) -> str:
    """Return that the plugins have not got an operator either, with what they have."""
    if not plugins:
        return ""
    return f"The plugins that were loaded do not have it either: {'; '.join(map(_one, plugins))}."


def _one(plugin: Loaded) -> str:
    if plugin.operators is None:
        return f"{plugin.library.name} (which operators it has, it does not tell)"
    more = len(plugin.operators) - _SHOWN
    named = ", ".join(plugin.operators[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{plugin.library.name} ({named})"


def with_plugins(found: Finding, plugins: Sequence[Loaded]) -> Finding:
    """Return a finding that also says what was loaded, where it is about an unknown operator."""
    if found.code != MISSING or not plugins:
        return found
    why = f"{found.why} {nor_in(plugins)}".strip()
    return found.model_copy(update={"why": why, "fix": f"{ANOTHER} {found.fix}".strip()})


def failed_with_plugins(failed: JobFailed, plugins: Sequence[Loaded]) -> JobFailed:
    """Return a failure that also says what was loaded, where it is for an unknown operator."""
    if failed.code == MISSING and plugins:
        failed.why = f"{failed.why} {nor_in(plugins)}".strip()
        failed.fix = f"{ANOTHER} {failed.fix}".strip()
    return failed
