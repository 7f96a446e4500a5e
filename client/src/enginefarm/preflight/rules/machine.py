"""Whether the machine at hand goes with the backend: the driver under its CUDA runtime."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.finding import Finding, warning_finding
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.preflight.tables.drivers import oldest_driver


def driver(subject: Subject) -> Iterator[Finding]:
    """A driver that is older than the CUDA runtime needs: what is built here is not run here."""
    there = (subject.room.driver or "").partition(".")[0]
    oldest = oldest_driver(subject.target.backend, subject.version)
    if subject.target.arch != "cpu" and there.isdigit() and int(there) < oldest:
        yield warning_finding(
            "driver_too_old",
            f"The driver {subject.room.driver} of this node runs no such engine.",
            why=f"{subject.capabilities.label} needs driver {oldest} or newer.",
            fix="Update the driver of the node; building alone does not need it.",
        )


RULES: tuple[Rule, ...] = (driver,)
