"""Which profiles are tried, and in which of the precisions. Pure.

A profile does not change a model file, nor what its precision costs it: only the engine. So the
precision is searched under the build's own profile, and the others are tried for the best of what
came of that. Some of the budget is kept for them, so that a long search for the precision does not
use it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from enginefarm.calibration_findings import beyond
from enginefarm.errors import InvalidRequest
from enginefarm.profile import measured_at
from enginefarm.search import SearchSpec, measured_shapes
from enginefarm.shapes_text import shapes_text
from enginefarm.spec import Profile
from tasks.search.choice import contenders
from tasks.search.tried import Proposal, Tried

FINALISTS = 3
"""In so many precisions each profile is tried, the best of them first."""


def room_for_profiles(spec: SearchSpec) -> int:
    """Return how much of the budget is kept: for one precision under each profile, at most half."""
    return min(len(spec.space.profiles), spec.budget.candidates // 2)


def with_profiles(spec: SearchSpec, tried: Sequence[Tried]) -> Iterator[Proposal]:
    """Yield the best of what was tried under the build's own profile, under each of the others."""
    outcomes = {
        at: row.outcome
        for at, row in enumerate(tried)
        if row.outcome is not None and row.outcome.accurate
    }
    for at in contenders(spec, outcomes)[:FINALISTS]:
        for name in sorted(spec.space.profiles):
            why = f"under the profile {name}, since it is one of the best under the build's own"
            yield Proposal(tried[at].precision, why, name)


def check_alternatives(spec: SearchSpec) -> None:
    """Refuse profiles that are none besides the build's, or that cannot be compared with it.

    Raises:
        InvalidRequest: code ``search_profile``.
    """
    seen: list[tuple[str, list[Profile]]] = [("the build's own", list(spec.build.profiles))]
    for name, profiles in spec.space.profiles.items():
        if not spec.build.profiles:
            raise _refusal(
                f"The profile {name} has none to be held against: the build has no profile.",
                "Give the build the profile that you would take.",
            )
        same = next((other for other, rows in seen if rows == profiles), None)
        if same is not None:
            raise _refusal(f"The profile {name} is the same as {same}.", "Leave one of them out.")
        for shapes in measured_shapes(spec):
            if not measured_at(profiles, [shapes]):
                raise InvalidRequest(
                    f"The profile {name} does not allow {shapes_text(shapes)}.",
                    code="search_profile",
                    why=f"{_misfit(profiles, shapes)} All candidates are measured at the same"
                    " shapes, or none could be said to be faster.",
                    fix="Widen it, or measure at shapes that all of them allow:"
                    " options.benchmark.shapes.",
                )
        seen.append((name, profiles))


def _misfit(profiles: Sequence[Profile], shapes: Mapping[str, Sequence[int]]) -> str:
    """Return which input, or which size of it, keeps the first profile from allowing shapes."""
    first = profiles[0]
    foreign, left_out = sorted(first.keys() - shapes.keys()), sorted(shapes.keys() - first.keys())
    if foreign:
        names = ", ".join(sorted(shapes))
        return f"It names {', '.join(foreign)}, and the build's own profile {names}."
    if left_out:
        return f"It leaves out {', '.join(left_out)}."
    found = beyond(shapes, first)
    return f"{found}." if found else "Its profiles differ."


def _refusal(message: str, fix: str) -> InvalidRequest:
    return InvalidRequest(message, code="search_profile", fix=fix)
