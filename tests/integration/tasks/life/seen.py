"""What a schedule knows by itself, and what a law is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, JobState
from tests.integration.tasks.life.snapshot import Snapshot


@dataclass
class Seen:
    """What this test knows by itself: what it was promised, and what it saw happen."""

    accepted: dict[str, str] = field(default_factory=dict)  # build: its tenant
    keyed: dict[tuple[str, str], tuple[BuildSpec, str | None]] = field(default_factory=dict)
    unanswered: int = 0  # submits that may have been accepted without our being told
    given: dict[tuple[str, int], str | None] = field(default_factory=dict)  # (job, attempt): token
    whole: set[tuple[str, int]] = field(default_factory=set)  # whose files are as they were told
    heard: dict[str, int] = field(default_factory=dict)  # build: its last event
    told: dict[str, JobState] = field(default_factory=dict)  # job: its state by the events
    told_of: dict[str, BuildState] = field(default_factory=dict)  # build: likewise
    ended: dict[str, JobState | BuildState] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)  # artifacts whose bytes were read
    models: set[tuple[str, str]] = field(default_factory=set)  # every one that was ever here


Law = Callable[[Snapshot, Seen], Iterator[str]]
