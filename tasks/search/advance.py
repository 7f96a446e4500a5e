"""Advance searches: read what came of candidates, propose the next, and end. One step, one commit.

All that a step needs is in rows, and all that it does is in one transaction: a process that dies
loses nothing, and two processes take turns by the tenant's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import structlog

from enginefarm.errors import Failure, FarmError, NotServed, QuotaExceeded
from enginefarm.precision import Precision
from enginefarm.report import BuildReport
from enginefarm.search import SearchSpec, SearchState, with_precision
from enginefarm.search_views import Outcome
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, Blame, BuildState, Stage
from storage import artifacts, builds, jobs, searches
from storage.database import Session, now
from storage.models import Build, Candidate, Search
from tasks.cancel import cancel_within
from tasks.chains import telling
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.loops import one_by_one
from tasks.search import choice, outcome
from tasks.search.begin import kinds_of, measured_now
from tasks.search.strategy import Proposal, Tried, next_step
from tasks.submit import Requester, submit

_log = structlog.get_logger()
LABEL = "search"
"""The label of a candidate: which search it is of."""
MOST_LABELS = 32


def advance_due(farm: Farm) -> int:
    """Take a step in every search that is not over; return how many there are."""
    with farm.database.transaction() as session:
        due = searches.running(session)
    one_by_one(due, partial(advance, farm), "search")
    return len(due)


def advance(farm: Farm, search_id: str) -> None:
    """Take one step in a search, unless it is over."""
    with farm.database.transaction() as session:
        seen = searches.find(session, search_id)
        if seen is None:
            return
        builds.lock_tenant(session, seen.tenant_id)
        row = searches.lock(session, search_id)
        if row.state is not SearchState.RUNNING:
            return
        spec = SearchSpec.model_validate(row.spec)
        tried = list(searches.candidates(session, search_id))
        for candidate in tried:
            if candidate.outcome is None:
                _look(session, spec, candidate)
        _step(session, farm, row, spec, tried)
        session.flush()
        reach("search.written")


def _look(session: Session, spec: SearchSpec, candidate: Candidate) -> None:
    """Keep what came of a candidate if its build is over."""
    if candidate.build_id is None:
        return
    build = builds.get(session, candidate.tenant_id, candidate.build_id)
    if BuildState(build.state).terminal:
        candidate.outcome = outcome_of(session, spec, build).model_dump(mode="json")


def outcome_of(session: Session, spec: SearchSpec, build: Build) -> Outcome:
    """Return what came of a build that is over."""
    its_jobs = telling(jobs.of_build(session, build.tenant_id, build.id))
    published = next((row for row in its_jobs if row.stage == Stage.PUBLISH), None)
    digest = ((published.result if published else None) or {}).get("artifact")
    if isinstance(digest, str):
        made = artifacts.get(session, build.tenant_id, digest)
        if made.report is None:
            return _gone(f"The report of {digest} is gone.")
        report = BuildReport.model_validate(made.report)
        return outcome.read(spec, report, digest, ArtifactState(made.state))
    failure = next((row.failure for row in its_jobs if row.failure is not None), None)
    if failure is not None:
        return outcome.failed(Failure.model_validate(failure))
    return _gone(f"Its build is {build.state}.")


def _gone(said: str) -> Outcome:
    return outcome.failed(Failure(code="cancelled", blame=Blame.PERSON, message=said))


def _step(
    session: Session, farm: Farm, row: Search, spec: SearchSpec, tried: list[Candidate]
) -> None:
    seconds = spec.budget.seconds
    late = seconds is not None and now() > row.created_at + timedelta(seconds=seconds)
    step = next_step(spec, kinds_of(spec), list(map(read, tried)), late=late)
    for proposal in step.proposals:
        made = _tried(session, farm, row, spec, proposal, len(tried) + 1)
        if made is None:
            return  # no room for more jobs of the tenant now, or no node
        tried.append(made)
    if step.over:
        _end(row, spec, tried, step.why)


def read(candidate: Candidate) -> Tried:
    """Return a candidate as the strategy wants it."""
    found = candidate.outcome
    return Tried(
        Precision.model_validate(candidate.precision),
        None if found is None else Outcome.model_validate(found),
    )


def _tried(
    session: Session, farm: Farm, row: Search, spec: SearchSpec, proposal: Proposal, number: int
) -> Candidate | None:
    """Submit a candidate; one that is refused is kept as such. None: it has to wait."""
    made = Candidate(
        search_id=row.id,
        number=number,
        tenant_id=row.tenant_id,
        precision=proposal.precision.model_dump(mode="json"),
        why=proposal.why,
        created_at=now(),
    )
    try:
        with session.begin_nested():
            gates = outcome.gates_of(spec, measured=measured_now(session, spec))
            asked = _labelled(with_precision(spec, proposal.precision, gates), row.id)
            requester = Requester(row.tenant_id, row.api_key_id)
            made.build_id = submit(session, farm.policy, requester, asked).build.id
    except QuotaExceeded as error:
        row.verdict = f"It waits for room: {error}"
        return None
    except FarmError as error:
        if _nobody_is_there(error) and not _waited_long(session, farm, row):
            row.verdict = f"It waits for a node: {error}"
            return None
        if error.blame is not Blame.PERSON:
            raise
        made.outcome = outcome.failed(error.as_failure()).model_dump(mode="json")
    row.verdict = ""
    session.add(made)
    session.flush()
    return made


def _nobody_is_there(error: FarmError) -> bool:
    """Tell whether a candidate is refused since the nodes are away: they were there before."""
    return isinstance(error, NotServed) and error.code == NotServed.default_code


def _waited_long(session: Session, farm: Farm, row: Search) -> bool:
    """Tell whether no build could begin for as long as a job may wait for a node."""
    since = searches.last_begun(session, row.id) or row.created_at
    return now() > since + timedelta(seconds=farm.policy.pending_s)


def _labelled(asked: BuildSpec, search_id: str) -> BuildSpec:
    """Return a build with the label that it is found by, if there is room for one more."""
    labels = {**asked.labels, LABEL: search_id}
    return asked if len(labels) > MOST_LABELS else asked.model_copy(update={"labels": labels})


def _end(row: Search, spec: SearchSpec, tried: Sequence[Candidate], why: str) -> None:
    found = {each.number: read(each) for each in tried}
    outcomes = {n: each.outcome for n, each in found.items() if each.outcome is not None}
    precisions = {number: each.precision for number, each in found.items()}
    row.chosen = choice.choose(spec, outcomes)
    row.verdict = choice.verdict(spec, precisions, outcomes, why)
    built = any(each.artifact for each in outcomes.values())
    unchosen = SearchState.UNMET if built else SearchState.FAILED
    row.state = unchosen if row.chosen is None else SearchState.SUCCEEDED
    row.finished_at = now()
    _log.info("search_over", state=str(row.state), chosen=row.chosen)


def cancel(farm: Farm, tenant_id: str, search_id: str) -> None:
    """Cancel a search and its candidates that are not over; one that is over stays as it is.

    Raises:
        NotFound: this tenant has no such search.
    """
    touched: list[str] = []
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        searches.get(session, tenant_id, search_id)
        row = searches.lock(session, search_id)
        if row.state is not SearchState.RUNNING:
            return
        row.state, row.finished_at = SearchState.CANCELLED, now()
        row.verdict = "It was cancelled."
        for candidate in searches.candidates(session, search_id):
            if candidate.build_id is not None and candidate.outcome is None:
                touched += cancel_within(session, tenant_id, candidate.build_id)
    for build_id in touched:
        farm.progress.wake(build_id)
