"""What the stage asks of every tool; nothing that a tool says of its result is believed."""

from __future__ import annotations

from typing import Protocol

from workers.precision.changing import Changed, Work


class Tool(Protocol):
    """Writes a model in another precision.

    ``change`` gets a model in memory and returns another; it may change the one that it gets. It
    walks through the samples as often as it wants and keeps none of them, names every node that
    stays as it was with the reason, and leaves the interface alone. It says regularly that it lives
    (``work.alive``). With the same work it returns the same model.
    """

    @property
    def name(self) -> str:
        """What its version is of."""
        ...

    @property
    def version(self) -> str:
        """The full version, as a job's key names it."""
        ...

    def change(self, work: Work) -> Changed:
        """Return the model in the precision that ``work.recipe`` names.

        Raises:
            JobFailed: ``precision_tool_failed``, ``precision_without_effect``.
        """
        ...

    def versions(self) -> dict[str, str]:
        """Return the versions of all that had a say, by name."""
        ...
