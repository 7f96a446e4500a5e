"""Advance searches: read what came of candidates, propose the next, and end. One step, one commit.

All that a step needs is in rows, and all that it does is in one transaction: a process that dies
loses nothing, and two processes take turns by the tenant's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import structlog

from enginefarm.errors import FarmError, NotServed, QuotaExceeded
from enginefarm.precision import Precision
from enginefarm.search import SearchSpec, SearchState, with_precision
from enginefarm.search_views import Outcome
from enginefarm.spec import BuildSpec
from enginefarm.state import Blame, Stage
from storage import builds, searches
from storage.database import Session, now
from storage.models import Candidate, Search
from tasks.cancel import cancel_within
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.fleet import live_nodes
from tasks.loops import one_by_one
from tasks.plan import newest_tool, newest_version
from tasks.plugin_rules import having
from tasks.search import built, choice, outcome, words
from tasks.search.begin import kinds_of, measured_now
from tasks.search.strategy import Away, next_step, nothing_is_away
from tasks.search.tried import Proposal, Step, Tried
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
                built.look(session, spec, candidate)
        _step(session, farm, row, spec, tried)
        session.flush()
        reach("search.written")


def _step(
    session: Session, farm: Farm, row: Search, spec: SearchSpec, tried: list[Candidate]
) -> None:
    seconds = spec.budget.seconds
    late = seconds is not None and now() > row.created_at + timedelta(seconds=seconds)
    away = _away(session, spec)
    step = next_step(spec, kinds_of(spec), list(map(read, tried)), late=late, away=away)
    for proposal in step.proposals:
        made = _tried(session, farm, row, spec, proposal, len(tried) + 1)
        if made is None:
            return  # no room for more jobs of the tenant now, or no node
        tried.append(made)
    if step.waits and not _waited_for_a_tool(session, farm, row):
        tools = sorted({str(each.precision.maker) for each in step.held})
        row.verdict = f"It waits for a node with {' or '.join(tools)}, and for nothing else."
    elif step.over or step.waits:
        _leave(session, row, step, tried)
        _end(session, row, spec, tried, step.why or "nothing else was left to try")


def _away(session: Session, spec: SearchSpec) -> Away:
    """Return what tells that no live node has the tool for a precision.

    Nothing is held back where the build waits for a node by itself, nor while no node has the
    target: then everything waits.
    """
    live, target, plugins = live_nodes(session), spec.build.targets[0], spec.build.options.plugins
    builders = having(live, Stage.CHECK, target, plugins)
    if spec.build.wait_for_node > 0 or newest_version(builders, target) is None:
        return nothing_is_away
    makers = having(live, Stage.CAST, target, plugins)
    return lambda asked: asked.stage is not None and newest_tool(makers, asked) is None


def _waited_for_a_tool(session: Session, farm: Farm, row: Search) -> bool:
    """Tell whether nothing of the search has begun or ended for as long as a tool is waited for."""
    since = searches.last_moved(session, row.id) or row.created_at
    return now() > since + timedelta(seconds=farm.policy.search_tool_wait_s)


def _leave(session: Session, row: Search, step: Step, tried: list[Candidate]) -> None:
    """Keep what was not tried, since nobody had its tool until the end."""
    for proposal in step.held:
        made = _candidate(row, proposal, len(tried) + 1)
        made.outcome = outcome.untried(proposal.precision).model_dump(mode="json")
        session.add(made)
        tried.append(made)
    session.flush()


def read(candidate: Candidate) -> Tried:
    """Return a candidate as the strategy wants it."""
    found = candidate.outcome
    return Tried(
        Precision.model_validate(candidate.precision),
        None if found is None else Outcome.model_validate(found),
        candidate.profile,
    )


def _tried(
    session: Session, farm: Farm, row: Search, spec: SearchSpec, proposal: Proposal, number: int
) -> Candidate | None:
    """Submit a candidate; one that is refused is kept as such. None: it has to wait."""
    made = _candidate(row, proposal, number)
    try:
        with session.begin_nested():
            measured = measured_now(session, spec)
            gates = outcome.gates_of(spec, proposal.precision, measured=measured)
            asked = with_precision(spec, proposal.precision, gates, proposal.profile)
            requester = Requester(row.tenant_id, row.api_key_id)
            made.build_id = submit(
                session, farm.policy, requester, _labelled(asked, row.id), row.id
            ).build.id
    except FarmError as error:
        awaited = _awaited(error)
        if awaited is not None and not _waited_long(session, farm, row):
            row.verdict = f"It waits for {awaited}: {error}"
            return None
        if error.blame is not Blame.PERSON:
            raise
        made.outcome = outcome.failed(error.as_failure()).model_dump(mode="json")
    row.verdict = ""
    session.add(made)
    session.flush()
    return made


def _candidate(row: Search, proposal: Proposal, number: int) -> Candidate:
    return Candidate(
        search_id=row.id,
        number=number,
        tenant_id=row.tenant_id,
        precision=proposal.precision.model_dump(mode="json"),
        profile=proposal.profile,
        why=proposal.why,
        created_at=now(),
    )


def _awaited(error: FarmError) -> str | None:
    """Say what a candidate is refused for that may come: room, or nodes that were there before."""
    if isinstance(error, QuotaExceeded):
        return "room"
    gone = {NotServed.default_code, "precision_not_served", "plugin_not_served"}
    return "a node" if isinstance(error, NotServed) and error.code in gone else None


def _waited_long(session: Session, farm: Farm, row: Search) -> bool:
    """Tell whether no build could begin for as long as a job may wait for a node."""
    since = searches.last_begun(session, row.id) or row.created_at
    return now() > since + timedelta(seconds=farm.policy.pending_s)


def _labelled(asked: BuildSpec, search_id: str) -> BuildSpec:
    """Return a build with the label that it is found by, if there is room for one more."""
    labels = {**asked.labels, LABEL: search_id}
    return asked if len(labels) > MOST_LABELS else asked.model_copy(update={"labels": labels})


def _end(
    session: Session, row: Search, spec: SearchSpec, tried: Sequence[Candidate], why: str
) -> None:
    """Choose, and let out what is chosen; the others stay kept back."""
    for candidate in tried:
        built.drop_revoked(session, candidate)
    found = {each.number: read(each) for each in tried}
    outcomes = {n: each.outcome for n, each in found.items() if each.outcome is not None}
    row.chosen = choice.choose(spec, outcomes, found)
    row.verdict = words.verdict(spec, found, outcomes, why)
    engines = any(each.artifact for each in outcomes.values())
    unchosen = SearchState.UNMET if engines else SearchState.FAILED
    row.state = unchosen if row.chosen is None else SearchState.SUCCEEDED
    row.finished_at = now()
    for candidate in tried:
        if candidate.number == row.chosen:
            built.let_out(session, candidate)
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
