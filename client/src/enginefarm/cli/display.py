"""Show work as it goes on: one progress bar for each job, lines where there is no terminal.

``follow`` watches a build to its end, ``upload_progress`` and ``bytes_progress`` count bytes.
They take a client and a console, so that others (the demo) can use them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pydantic import ValidationError
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from enginefarm.cli.output import clean
from enginefarm.cli.results import result_lines, result_table
from enginefarm.client import FarmClient
from enginefarm.state import JobState
from enginefarm.views import BuildView, EventView, JobView, ProgressView

__all__ = ["bytes_progress", "follow", "result_lines", "result_table", "upload_progress"]

_STYLE = {
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.EXPIRED: "red",
    JobState.CANCELLED: "yellow",
    JobState.RUNNING: "cyan",
}

_ROOMY = 100
_BESIDE = 20 + 9 + 4 + 9 + 5  # the other columns and what stands between them
_STATE = len("succeeded (cached)")


def follow(
    farm: FarmClient,
    build_id: str,
    console: Console,
    *,
    told: Callable[[EventView], None] | None = None,
) -> BuildView:
    """Show a build until it is over, and return it; ``told`` hears every event."""
    board: _Bars | _Lines = _Bars(console) if console.is_terminal else _Lines(console)
    with board:
        for event in farm.builds.watch(build_id):
            if told is not None:
                told(event)
            if event.kind == "progress":
                board.progress(event.job or "", _progress(event))
            else:
                board.show(farm.builds.get(build_id))
        build = farm.builds.get(build_id)
        board.show(build)
    return build


@contextmanager
def upload_progress(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    """Give a callback that shows how much of an upload is sent."""
    with _bytes(console) as progress:
        task: TaskID | None = None

        def sent(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = progress.add_task(f"sending {clean(name)}", total=total)
            progress.update(task, completed=done)

        yield sent


@contextmanager
def bytes_progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback that shows how much of each thing is done, by its name."""
    with _bytes(console) as progress:
        tasks: dict[str, TaskID] = {}

        def told(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(clean(name), total=total)
            progress.update(tasks[name], completed=done)

        yield told


class _Elapsed(ProgressColumn):
    """How long a job has been running, by the farm's own clock once it is over."""

    def render(self, task: Task) -> Text:
        job: JobView | None = task.fields.get("job")
        seconds = None if job is None else _seconds(job)
        return Text("" if seconds is None else f"{seconds:7.1f} s", style="dim")


class _Phase(ProgressColumn):
    """What a job does now, in the colour of its state and on one line."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def render(self, task: Task) -> Text:
        text = Text(str(task.fields.get("phase", "")), style=task.fields.get("style", "white"))
        text.truncate(self._room, overflow="ellipsis")
        return text


class _Bars:
    """One bar for each job, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._bars: dict[str, TaskID] = {}
        bar = 24 if console.width >= _ROOMY else 8
        self._progress = Progress(
            TextColumn("{task.fields[target]}", style="bold", markup=False),
            TextColumn("{task.description:<9}", markup=False),
            BarColumn(bar_width=bar, complete_style="cyan", finished_style="green"),
            TextColumn("{task.fields[percent]:>4}", markup=False),
            _Elapsed(),
            _Phase(max(console.width - bar - _BESIDE, _STATE)),
            console=console,
            refresh_per_second=8,
        )

    def __enter__(self) -> None:
        self._progress.start()

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, build: BuildView) -> None:
        for job in build.jobs:
            if job.id not in self._bars:
                self._bars[job.id] = self._progress.add_task(
                    job.step,
                    total=1.0,
                    target=f"{job.target!s:<20}",
                    percent="",
                    phase="",
                    style="white",
                    job=job,
                )
            self._draw(job)

    def progress(self, job_id: str, view: ProgressView) -> None:
        if job_id in self._bars:
            self._advance(self._bars[job_id], view)

    def _draw(self, job: JobView) -> None:
        bar = self._bars[job.id]
        style = _STYLE.get(job.state, "white")
        self._progress.update(bar, job=job, style=style, phase=_phrase(job))
        if job.state in {JobState.SUCCEEDED, JobState.UPLOADED}:
            self._progress.update(bar, total=1.0, completed=1.0, percent="")
        elif job.state.terminal:
            # What ended badly stays where it was.
            self._progress.update(bar, total=1.0, percent="")
        elif job.state is JobState.RUNNING and job.progress is not None:
            self._advance(bar, job.progress)

    def _advance(self, bar: TaskID, view: ProgressView) -> None:
        """Move a bar; one whose backend cannot tell how far it is pulses."""
        percent = "" if view.fraction is None else f"{view.fraction:.0%}"
        phase = " ".join(part for part in (view.phase, view.detail) if part)
        self._progress.update(
            bar,
            total=None if view.fraction is None else 1.0,
            completed=view.fraction or 0.0,
            percent=percent,
            phase=clean(phase),
        )


class _Lines:
    """One line for each thing that changes: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: dict[str, str] = {}

    def __enter__(self) -> None:
        """Nothing to begin."""

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def show(self, build: BuildView) -> None:
        for job in build.jobs:
            phrase = _phrase(job)
            if self._known.get(job.id) == phrase:
                continue
            self._known[job.id] = phrase
            seconds = _seconds(job)
            took = "" if seconds is None or not job.state.terminal else f" ({seconds:.1f} s)"
            line = f"{job.target!s:<20} {job.step:<9} {phrase}{took}"
            self._console.print(Text(line), soft_wrap=True)

    def progress(self, job_id: str, view: ProgressView) -> None:
        """Progress is for the eye; a log tells only what is final."""


def _phrase(job: JobView) -> str:
    """Return what a job does now, in a few words."""
    if job.failure is not None and job.state.terminal:
        return clean(f"{job.state}: {job.failure.message}")
    if job.state is JobState.SUCCEEDED and job.cached_from is not None:
        return "succeeded (cached)"
    if job.joined_to is not None and not job.state.terminal:
        return f"{job.state} (joined to another build's job)"
    if job.state is JobState.RUNNING and job.node is not None:
        return clean(f"running on {job.node}")
    if job.note is not None and job.state in {JobState.QUEUED, JobState.WAITING}:
        return clean(f"{job.state}: {job.note}")
    return str(job.state)


def _seconds(job: JobView) -> float | None:
    if job.started_at is None:
        return None
    until = job.finished_at or datetime.now(UTC)
    return max(0.0, (until - job.started_at).total_seconds())


def _progress(event: EventView) -> ProgressView:
    try:
        return ProgressView.model_validate(event.data)
    except ValidationError:
        # A newer farm may tell more than this client can show; the bar waits for the next.
        return ProgressView()


def _bytes(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
