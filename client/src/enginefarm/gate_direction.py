"""In which direction a gate makes sense: a cosine has a least value, a latency a greatest. Pure.

A bound in the other direction alone would publish the bad engines and keep back the good ones. Both
bounds together are a range, and may be meant.
"""

from __future__ import annotations

from enginefarm.errors import InvalidRequest
from enginefarm.spec import Gate


def require_direction(gate: Gate) -> None:
    """Refuse a gate whose only bound is on the wrong side.

    Raises:
        InvalidRequest: ``gate_direction``; the context has the metric, the sign that makes sense,
            and the bound.
    """
    higher = gate.metric.more_is_better
    if higher is None:
        return
    right, wrong = ("at_least", "at_most") if higher else ("at_most", "at_least")
    bound = getattr(gate, wrong)
    if bound is None or getattr(gate, right) is not None:
        return
    sign = ">=" if higher else "<="
    given = "<=" if higher else ">="
    raise InvalidRequest(
        f"The gate {gate.metric} {given} {bound:g} looks in the wrong direction.",
        code="gate_direction",
        why=f"The {'higher' if higher else 'lower'} {gate.metric} is, the better: this gate would "
        "publish the bad engines and keep back the good ones.",
        fix=f"Give {right} instead of {wrong}.",
        metric=str(gate.metric),
        sign=sign,
        bound=f"{bound:g}",
    )
