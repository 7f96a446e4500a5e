"""Take a comparison in: the build that it is, which is checked like any other when it is made."""

from __future__ import annotations

from pydantic import TypeAdapter

from enginefarm.compared import Compared
from enginefarm.comparison import ComparisonSpec
from enginefarm.errors import InvalidRequest
from enginefarm.spec import BuildSpec, Profile, StageOptions
from storage import catalogue
from storage.database import Session
from storage.ids import new_id
from storage.models import Model
from tasks.comparing.plugins import plugins_of_both, require_plugins
from tasks.comparing.subjects import VERSION_BOUND, read_pair, require_alike, run_for

_PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])


def build_for(
    session: Session, tenant_id: str, asked: ComparisonSpec, key: str | None
) -> BuildSpec:
    """Return the build that measures two artifacts as the first was measured.

    ``key`` is the idempotency key: the same one asks for the same measurement.

    Raises:
        NotFound: the tenant has no such artifact.
        InvalidRequest: one of them cannot be run.
    """
    pair = read_pair(session, tenant_id, asked.first, asked.second)
    first, target = pair[0], run_for(pair, asked.on)
    return BuildSpec(
        model=first.artifact.model_digest,
        targets=[target],
        profiles=_PROFILES.validate_python(first.profiles),
        options=StageOptions(benchmark=asked.options, plugins=plugins_of_both(pair)),
        evaluation=first.spec.evaluation,
        synthetic=first.spec.synthetic,
        seed=first.spec.seed,
        # What the backend builds is for no SKU, but it can be run on one.
        measure_on=[asked.on] if asked.on is not None and target.sku is None else [],
        priority=asked.priority,
        labels=asked.labels,
        wait_for_node=asked.wait_for_node,
        limits=asked.limits,
        compare=Compared(
            first=asked.first,
            second=asked.second,
            backend_version=first.backend_version if target.backend in VERSION_BOUND else None,
            again=(key or new_id("again")) if asked.again else None,
        ),
    )


def admit_compared(session: Session, tenant_id: str, spec: BuildSpec, compare: Compared) -> Model:
    """Check a comparison before there is a job of it; return the model of the first artifact.

    Raises:
        NotFound: the tenant has no such artifact, or its model or dataset is gone.
        InvalidRequest: they cannot be run side by side; see ``tasks.comparing.subjects``, and
            ``tasks.comparing.plugins``.
    """
    pair = read_pair(session, tenant_id, compare.first, compare.second)
    require_alike(pair, list(spec.profiles))
    require_plugins(pair)
    if spec.evaluation is not None:
        catalogue.get_dataset(session, tenant_id, spec.evaluation)
    return catalogue.get_model(session, tenant_id, pair[0].artifact.model_digest)


def require_no_comparison(spec: BuildSpec) -> None:
    """Refuse a build that names two artifacts: what becomes of them is asked for elsewhere.

    Raises:
        InvalidRequest: code ``comparison_by_build``.
    """
    if spec.compare is not None:
        raise InvalidRequest(
            "A build does not compare artifacts.",
            code="comparison_by_build",
            fix="Ask POST /v1/comparisons, or: enginefarm compare A B.",
        )
