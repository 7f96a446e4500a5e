"""``enginefarm logs``: what the attempts of a build's jobs have printed, also while they print it.

A log is the words of a model's own code as much as the farm's, so what would steer a terminal is
taken out of it; ``--json`` has it as it came, escaped.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import typer

from enginefarm.cli.output import Json, clean_log, print_json, remark, say
from enginefarm.cli.session import connect
from enginefarm.cli.watch import Build
from enginefarm.client import FarmClient, LogPart
from enginefarm.errors import InvalidRequest, NotFound
from enginefarm.views import BuildView, JobView

POLL_S = 1.0
_ANCHORS = (2000, 200)
_LARGE_TAIL = 65_536
_SILENT = "nothing was logged: no attempt has printed anything"
_CUT = re.compile(r"^enginefarm: (\d+) bytes of the log were cut here$", re.MULTILINE)


def logs(
    ctx: typer.Context,
    build: Build,
    *,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Only this job's.")] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Only this attempt's.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until what is logged is over.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the logs of a build's attempts."""
    if follow and as_json:
        raise InvalidRequest(
            "A log that is followed is no one document.",
            code="invalid_argument",
            fix="Leave out --follow, or --json.",
        )
    wanted = Wanted(build, job, attempt, patient=follow)
    with connect(ctx) as farm:
        if as_json:
            told = _documents(farm, wanted)
            print_json(told)
            if not any(row["log"] for row in told):
                remark(_SILENT if told else "nothing is logged: no attempt has begun")
        else:
            Follower(farm, wanted).run()


@dataclass(frozen=True)
class Wanted:
    """Whose logs are to be shown."""

    build: str
    job: str | None
    attempt: int | None
    patient: bool = False

    def jobs(self, build: BuildView) -> list[JobView]:
        """Return the jobs that are meant.

        Raises:
            NotFound: the build has none such (code ``unknown_attempt``).
        """
        found = [each for each in build.jobs if self.job in {None, each.id}]
        too_late = build.state.terminal or not self.patient
        if not found or (self.attempt is not None and too_late and not self.attempts(found)):
            raise NotFound(
                f"Build {build.id} has no such attempt.",
                code="unknown_attempt",
                why="The job is not one of its own, or has not been tried that often.",
                fix=f"See its jobs with: enginefarm show {build.id}",
            )
        return found

    def attempts(self, jobs: list[JobView]) -> list[tuple[JobView, int]]:
        """Return the attempts that are meant, as far as they have begun."""
        return [
            (job, tried.number)
            for job in jobs
            for tried in job.attempts
            if self.attempt in {None, tried.number}
        ]

    def over(self, build: BuildView) -> bool:
        """Tell whether nothing more can be logged of what is meant."""
        if build.state.terminal:
            return True
        if self.job is None:
            return False
        job = next(each for each in build.jobs if each.id == self.job)
        ended = {each.number for each in job.attempts if each.finished_at is not None}
        return job.state.terminal or self.attempt in ended


@dataclass
class Follower:
    """Prints logs as they grow, each letter once."""

    farm: FarmClient
    wanted: Wanted
    sleep: Callable[[float], None] = time.sleep
    _shown: dict[tuple[str, int], str] = field(default_factory=dict)
    _done: set[tuple[str, int]] = field(default_factory=set)
    _speaking: tuple[str, int] | None = None
    _mid_line: bool = False

    def run(self) -> None:
        """Print what there is, and with ``patient`` what still comes."""
        while True:
            build = self.farm.builds.get(self.wanted.build)
            jobs = self.wanted.jobs(build)
            attempts = self.wanted.attempts(jobs)
            several = len(attempts) > 1 or (self.wanted.patient and self.wanted.job is None)
            for job, number in attempts:
                self._show(job, number, titled=several)
            if not self.wanted.patient or self.wanted.over(build):
                break
            self.sleep(POLL_S)
        self._end_line()
        if not self._shown:
            remark(_nothing(build, jobs))
        elif not any(self._shown.values()):
            remark(_SILENT)

    def _show(self, job: JobView, number: int, *, titled: bool) -> None:
        place = (job.id, number)
        if place in self._done:
            return
        part = _comparable(self.farm.builds.log_part(job.id, number))
        shown = self._shown.get(place)
        # An attempt that has said nothing is named when one asks what there is, not when one waits.
        speaks = part.text != (shown or "") or (shown is None and not self.wanted.patient)
        if titled and self._speaking != place and speaks:
            self._end_line()
            say(f"== {job.target} {job.step} {job.id} attempt {number}")
            self._speaking = place
        if shown is None and not part.whole and len(part.text) >= _LARGE_TAIL:
            remark("the attempt still runs: only the end of its log is kept until it is over")
        for piece in _news(shown or "", part):
            self._write(piece)
        self._shown[place] = part.text
        if part.whole:
            self._done.add(place)
            self._end_line()
            for cut in _CUT.finditer(part.text):
                remark(f"the log of attempt {number} was too long: {cut[1]} bytes of it are cut")

    def _write(self, text: str) -> None:
        # Nothing is wrapped or coloured.
        if text:
            sys.stdout.write(clean_log(text))
            sys.stdout.flush()
            self._mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._mid_line:
            self._write("\n")


def _comparable(part: LogPart) -> LogPart:
    """Spell a log the same while it grows and afterwards: a database keeps no NUL."""
    return LogPart(part.text.replace("\0", "\N{REPLACEMENT CHARACTER}"), whole=part.whole)


def _news(shown: str, part: LogPart) -> Iterator[str]:
    """Yield what of a log was not shown before; a tail loses its beginning as it grows."""
    if part.text.startswith(shown):
        yield part.text[len(shown) :]
        return
    for length in _ANCHORS:
        anchor = shown[-length:]
        at = part.text.rfind(anchor)
        if at >= 0:
            yield part.text[at + len(anchor) :]
            return
    yield "\n[some of the log is missing here: more came than is kept while it runs]\n"
    yield part.text


def _nothing(build: BuildView, jobs: list[JobView]) -> str:
    cached = [job for job in jobs if job.cached_from is not None]
    if cached and len(cached) == len(jobs):
        return "nothing ran, so nothing was logged: all of it came from the cache"
    if build.state.terminal:
        return "nothing was logged: no attempt ever ran"
    return "nothing is logged yet: no attempt has begun; wait for it with --follow"


def _documents(farm: FarmClient, wanted: Wanted) -> list[dict[str, object]]:
    jobs = wanted.jobs(farm.builds.get(wanted.build))
    found: list[dict[str, object]] = []
    for job, number in wanted.attempts(jobs):
        part = farm.builds.log_part(job.id, number)
        row = {"job": job.id, "stage": job.stage, "attempt": number}
        found.append({**row, "whole": part.whole, "log": part.text})
    return found
