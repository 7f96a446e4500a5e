"""The plugins of a comparison: those of both artifacts, which one process has to load together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginefarm.errors import InvalidRequest
from enginefarm.plugins import Plugins, needed
from enginefarm.state import Stage

if TYPE_CHECKING:
    from tasks.comparing.subjects import Pair, Subject


def plugins_of_both(pair: Pair) -> Plugins:
    """Return what a process must load that runs both engines and the original."""
    first, second = (_run_with(row) for row in pair)
    return second | first


def require_plugins(pair: Pair) -> None:
    """Refuse two that one process could not run with the operators that each was built with.

    Raises:
        InvalidRequest: they name different libraries for one backend (code
            ``comparison_plugins``).
    """
    first, second = (_run_with(row) for row in pair)
    for backend in sorted(first.keys() & second.keys()):
        if first[backend] != second[backend]:
            raise InvalidRequest(
                f"The two artifacts were built with different plugins for {backend}.",
                code="comparison_plugins",
                why="Both are run in one process, in which an operator is there once.",
                fix="Build one of them anew with the other's plugins, or hold their reports"
                " together: enginefarm diff.",
            )


def _run_with(row: Subject) -> Plugins:
    return needed(Stage.BENCHMARK, row.target, row.spec.options.plugins)
