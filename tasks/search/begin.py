"""Take a search in: check it and all that it would try first, then write its row."""

from __future__ import annotations

from dataclasses import dataclass

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import Conflict, InvalidRequest
from enginefarm.precision import TOOLS, Precision, PrecisionKind, PrecisionTool
from enginefarm.search import (
    USUAL_KINDS,
    SearchSpec,
    SearchState,
    require_one_target,
    with_precision,
)
from enginefarm.spec import MAX_GATES
from storage import builds, catalogue, searches
from storage.database import Session, now
from storage.ids import new_id
from storage.models import Model, Search
from tasks.comparing.begin import require_no_comparison
from tasks.fleet import live_nodes
from tasks.plan import LiveNode, TargetPlan, plan_target
from tasks.precision_rules import check_precision
from tasks.quotas import require_few_searches
from tasks.routing import APART
from tasks.search.outcome import gates_of, requirements
from tasks.search.profiles import check_alternatives
from tasks.search.strategy import openers, tools_of
from tasks.search.words import notes
from tasks.submit import Requester, admit


@dataclass(frozen=True)
class Begun:
    """A search; ``existed``: it was begun before under the idempotency key."""

    search: Search
    existed: bool = False


def begin(session: Session, requester: Requester, spec: SearchSpec) -> Begun:
    """Accept a search, or return the one of this idempotency key; a loop proposes candidates.

    Raises:
        InvalidRequest: it is no search (``search_target``, ``search_precision``,
            ``search_requirement``, ``search_profile``, ``search_empty``), or a candidate could not
            be built.
        NotServed: nobody could build a candidate.
        QuotaExceeded: the tenant has as many searches as it may have (code ``quota_searches``).
    """
    tenant_id, key = requester.tenant_id, requester.idempotency_key
    request = digest_of(canonical_json(spec.model_dump(mode="json")))
    builds.lock_tenant(session, tenant_id)
    if key is not None:
        known = searches.with_idempotency_key(session, tenant_id, key)
        if known is not None:
            return Begun(_same(known, request, key), existed=True)
    require_few_searches(session, tenant_id)
    spec = _with_tools(session, spec)
    check_search(spec)
    kinds = kinds_of(spec)
    plan = _planned(session, spec)
    model = _admitted(session, tenant_id, spec, measured=plan.measured)
    row = Search(
        id=new_id("srch"),
        tenant_id=tenant_id,
        state=SearchState.RUNNING,
        model_digest=model.digest,
        model_name=model.name,
        spec=spec.model_dump(mode="json"),
        api_key_id=requester.api_key_id,
        idempotency_key=key,
        request_digest=request,
        notes=notes(spec, kinds, reason=plan.reason if plan.version is not None else None),
        created_at=now(),
    )
    session.add(row)
    session.flush()
    return Begun(row)


def _admitted(session: Session, tenant_id: str, spec: SearchSpec, *, measured: bool) -> Model:
    """Check all that is tried whatever comes of it; return the model."""
    model = catalogue.get_model(session, tenant_id, spec.build.model)
    for row in openers(spec, kinds_of(spec)):
        gates = gates_of(spec, row.precision, measured=measured)
        admit(session, tenant_id, with_precision(spec, row.precision, gates))
    for profile in spec.space.profiles:
        admit(session, tenant_id, with_precision(spec, Precision(), [], profile))
    return model


def _with_tools(session: Session, spec: SearchSpec) -> SearchSpec:
    """Name the tools that live nodes have, unless they are named: another day has others.

    What a kind that is named cannot do without is waited for, whoever is there now.
    """
    if spec.space.tools:
        return spec
    live = live_nodes(session)
    needed = {TOOLS[kind] for kind in spec.space.kinds if kind in TOOLS}
    tools = [
        tool
        for tool in PrecisionTool
        if tool not in APART or tool in needed or any(tool in _tools_of(node) for node in live)
    ]
    space = spec.space.model_copy(update={"tools": tools})
    return spec.model_copy(update={"space": space})


def _tools_of(node: LiveNode) -> set[str]:
    return {backend.name for backend in node.description.backends}


def _planned(session: Session, spec: SearchSpec) -> TargetPlan:
    """Return how the model as it came would be built, without what only some may measure."""
    bare = with_precision(spec, Precision(), spec.build.gates)
    return plan_target(bare, bare.targets[0], live_nodes(session))


def kinds_of(spec: SearchSpec) -> list[PrecisionKind]:
    """Return the kinds that are tried: those that are named, else all that the target takes."""
    if spec.space.kinds:
        return [kind for kind in dict.fromkeys(spec.space.kinds) if kind is not PrecisionKind.AS_IS]
    return [kind for kind in USUAL_KINDS if tools_of(spec, kind) and _takes(spec, kind)]


def _takes(spec: SearchSpec, kind: PrecisionKind) -> bool:
    precision = Precision(kind=kind, calibration=spec.calibration)
    try:
        check_precision(with_precision(spec, precision, []))
    except InvalidRequest as error:
        if error.code in {"precision_not_on_architecture", "calibration_missing"}:
            return False
        raise
    return True


def check_search(spec: SearchSpec) -> None:
    """Refuse what is no search.

    Raises:
        InvalidRequest: several targets, a precision of the build's own, a check, a requirement
            that names another artifact or target, too many gates, a profile that cannot be tried,
            or nothing to try.
    """
    build = spec.build
    require_no_comparison(build)
    require_one_target(spec)
    if build.precision != Precision() or build.until is not None:
        raise _refusal(
            "search_precision",
            "The build of a search asks for a precision or a check of its own.",
            "Leave precision and until out of the build; say under space what may be tried.",
        )
    for gate in requirements(spec):
        if gate.against is not None or gate.target not in {None, build.targets[0]}:
            raise _refusal(
                "search_requirement",
                f"A requirement on {gate.metric} names an artifact or another target.",
                "Give it a bound of its own: at_least or at_most.",
            )
    _require_few_gates(spec)
    check_alternatives(spec)
    if not kinds_of(spec):
        raise _refusal(
            "search_empty",
            "There is nothing to search: no precision can be tried on the target.",
            "Give calibration data for int8, or another target.",
        )


def _require_few_gates(spec: SearchSpec) -> None:
    """Refuse more gates than a candidate's build may have: its own, and what is required."""
    asked = [*spec.build.gates, *requirements(spec)]
    if len(asked) > MAX_GATES:
        raise _refusal(
            "search_gates",
            f"A candidate would have {len(asked)} gates, and a build has at most {MAX_GATES}.",
            "Leave out gates of the build, or requirements: each candidate must meet both.",
        )


def _refusal(code: str, message: str, fix: str) -> InvalidRequest:
    return InvalidRequest(message, code=code, fix=fix)


def _same(known: Search, request: str, key: str) -> Search:
    if known.request_digest != request:
        raise Conflict(
            f"Idempotency key {key[:80]!r} was used for another search.",
            code="idempotency_key_reused",
            why=f"Search {known.id} was begun under it with a different body.",
            fix="Send the same body, or a new key.",
        )
    return known


def measured_now(session: Session, spec: SearchSpec) -> bool:
    """Tell whether live nodes can run an engine for the search's target."""
    return _planned(session, spec).measured
