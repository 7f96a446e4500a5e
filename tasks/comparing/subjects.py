"""The two artifacts of a comparison: read from rows, and refused where they do not go together.

What an engine takes and gives is what its build's stages said of it, as its config has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from enginefarm.compared import Compared
from enginefarm.compile_options import opened_by
from enginefarm.errors import InvalidRequest
from enginefarm.manifest import ENGINE_TYPES, Descriptor, read_manifest
from enginefarm.precision import PrecisionKind
from enginefarm.report import BuildReport
from enginefarm.spec import BuildSpec, Profile
from enginefarm.state import ArtifactState, Stage
from enginefarm.target import SKU_BACKENDS, Target
from enginefarm.views import TensorView
from storage import artifacts, builds, catalogue, jobs, lost
from storage.database import Session
from storage.models import Artifact, Job
from tasks.chains import engine_jobs
from tasks.results import interface_of

VERSION_BOUND = frozenset({"tensorrt", "tensorrt-rtx"})
"""Backends whose engines only the version that built them loads."""


@dataclass(frozen=True)
class Subject:
    """One of the two: its artifact, its engine, and what that was built for."""

    artifact: Artifact
    engine: Descriptor
    spec: BuildSpec
    backend_version: str
    profiles: list[dict[str, Any]]
    inputs: list[TensorView]
    outputs: list[TensorView]

    @property
    def target(self) -> Target:
        """What it was built for."""
        return Target.parse(self.artifact.target)


Pair = tuple[Subject, Subject]
Both = tuple[Artifact, Artifact]


def precision_of(row: Artifact) -> PrecisionKind:
    """Return what an artifact's engine computes with."""
    report = None if row.report is None else BuildReport.model_validate(row.report)
    made = None if report is None else report.precision
    return PrecisionKind.AS_IS if made is None else made.recipe.kind


def engine_file(row: Artifact) -> Descriptor:
    """Return the engine that an artifact's manifest names.

    Raises:
        InvalidRequest: there is none (code ``comparison_engine_gone``).
    """
    wanted = ENGINE_TYPES[Target.parse(row.target).backend]
    files = read_manifest(row.manifest).layers
    found = next((file for file in files if file.media_type == wanted), None)
    if found is None:
        raise _gone(row.digest, "Its manifest names no engine.")
    return found


def files_of(session: Session, tenant_id: str, asked: Compared) -> dict[str, dict[str, Any]]:
    """Return the engines of both, as a recipe names files, and how they are opened."""
    sides = {"first": asked.first, "second": asked.second}
    rows = {side: artifacts.get(session, tenant_id, digest) for side, digest in sides.items()}
    return {side: _named(session, row) for side, row in rows.items()}


def _named(session: Session, artifact: Artifact) -> dict[str, Any]:
    row, backend = engine_file(artifact), Target.parse(artifact.target).backend
    build = builds.get(session, artifact.tenant_id, artifact.build_id)
    built = opened_by(backend, BuildSpec.model_validate(build.spec).options.compile)
    named = {"name": row.name, "digest": row.digest, "size": row.size, "media_type": row.media_type}
    return named | ({"built_with": built} if built else {})


def read_pair(session: Session, tenant_id: str, first: str, second: str) -> Pair:
    """Return both artifacts, which the tenant must have and may run.

    Raises:
        NotFound: the tenant has no such artifact.
        InvalidRequest: one was revoked, or its engine is gone (codes ``comparison_revoked``,
            ``comparison_engine_gone``).
    """
    return _read(session, tenant_id, first), _read(session, tenant_id, second)


def _read(session: Session, tenant_id: str, digest: str) -> Subject:
    row = artifacts.get(session, tenant_id, digest)
    if row.state is ArtifactState.REVOKED:
        raise revoked(digest)
    engine = engine_file(row)
    if row.engine_expired_at is not None or engine.digest in set(
        lost.of_artifact(session, tenant_id, digest)
    ):
        raise _gone(digest, "It was removed by the operator's rule, or the bucket has lost it.")
    stages = _stages(session, row)
    compiled, repaired = stages.get(Stage.COMPILE), stages.get(Stage.REPAIR)
    if compiled is None or compiled.recipe is None or (repaired and repaired.result is None):
        raise _gone(digest, "What its stages said of it is not kept.")
    model = catalogue.get_model(session, tenant_id, row.model_digest)
    told = interface_of(repaired.result if repaired else None) or model.interface
    return Subject(
        artifact=row,
        engine=engine,
        spec=BuildSpec.model_validate(builds.get(session, tenant_id, row.build_id).spec),
        backend_version=compiled.backend_version or "",
        profiles=compiled.recipe["profiles"],
        inputs=[TensorView.model_validate(each) for each in told["inputs"]],
        outputs=[TensorView.model_validate(each) for each in told["outputs"]],
    )


def _stages(session: Session, row: Artifact) -> dict[Stage, Job]:
    every = jobs.of_build(session, row.tenant_id, row.build_id)
    return {Stage(job.stage): job for job in engine_jobs(every) if job.target == row.target}


def run_for(pair: Pair, on: str | None = None) -> Target:
    """Return the target that both are run for: on that SKU, or on the one that either names.

    Where no target of the backend has a SKU it is that of the architecture, whatever SKU is named.

    Raises:
        InvalidRequest: there is no such SKU of it (code ``sku_refused``), or one of them is for
            another (code ``comparison_target``).
    """
    targets = [row.target for row in pair]
    built = next((target for target in targets if target.sku is not None), targets[0])
    if on is None:
        return built
    if built.arch == "cpu":
        raise InvalidRequest(
            f"An artifact for {built} is not run on a SKU that is named.",
            code="sku_refused",
            why="It runs on a processor.",
            fix="Leave out --on, in a body on.",
        )
    if built.backend not in SKU_BACKENDS:
        return built
    if built.sku not in {None, on}:
        raise InvalidRequest(
            f"An artifact for {built} is not run on {on[:64]!r}.",
            code="comparison_target",
            why="It was built for another SKU.",
            fix=f"Leave out on, or compare artifacts for {built.plain}.",
        )
    return Target.parse(f"{built.plain}:{on}")


def require_alike(pair: Pair, profiles: list[Profile]) -> None:
    """Refuse two that cannot be run side by side, at the opt of each of these profiles.

    Raises:
        InvalidRequest: ``comparison_target``, ``comparison_versions``, ``comparison_interface``,
            ``comparison_shapes``.
    """
    first, second = pair
    targets = [row.target for row in pair]
    skus = {target.sku for target in targets} - {None}
    if targets[0].plain != targets[1].plain or len(skus) > 1:
        raise InvalidRequest(
            f"One artifact is for {targets[0]}, the other for {targets[1]}.",
            code="comparison_target",
            why="Both are run in one process on one device.",
            fix="Compare two of one target; enginefarm diff holds any two reports together.",
        )
    versions = [row.backend_version for row in pair]
    if targets[0].backend in VERSION_BOUND and versions[0] != versions[1]:
        raise InvalidRequest(
            f"One artifact was built with {targets[0].backend} {versions[0]}, the other with"
            f" {versions[1]}.",
            code="comparison_versions",
            why="Such an engine is loaded only by the version that built it, and one process has"
            " one.",
            fix="Build one of them anew, or hold their reports together: enginefarm diff.",
        )
    differs = _differ(first.inputs, second.inputs, "input") or _differ(
        first.outputs, second.outputs, "output"
    )
    if differs is not None:
        raise InvalidRequest(
            "The two artifacts do not take and give the same.",
            code="comparison_interface",
            why=f"{differs[0].upper()}{differs[1:]}.",
            fix="Compare artifacts whose inputs and outputs have the same names, types and"
            " dimensions.",
        )
    _require_shapes(second, profiles)


def _differ(ones: list[TensorView], others: list[TensorView], what: str) -> str | None:
    """Return in what two sets of tensors differ; how a free dimension is called does not matter."""
    known = {row.name: row for row in others}
    for name in sorted({row.name for row in ones} ^ set(known)):
        return f"only one of them has the {what} {name[:80]!r}"
    for one in ones:
        other = known[one.name]
        if one.dtype != other.dtype:
            return f"the {what} {one.name[:80]!r} is {one.dtype} in one, {other.dtype} in the other"
        shapes = [
            [dim if isinstance(dim, int) else None for dim in row.shape] for row in (one, other)
        ]
        if shapes[0] != shapes[1]:
            return f"the {what} {one.name[:80]!r} is {one.shape} in one, {other.shape} in the other"
    return None


def _require_shapes(second: Subject, profiles: list[Profile]) -> None:
    for number, profile in enumerate(profiles):
        if not any(_takes(row, profile) for row in second.profiles):
            raise InvalidRequest(
                f"The second artifact was not built for profile {number} of the first.",
                code="comparison_shapes",
                why="Both are measured at the opt shapes of the first, and no profile of the second"
                " allows these.",
                fix="Compare the other way round, or build one of them with the other's profiles.",
            )


def _takes(built: dict[str, Any], profile: Profile) -> bool:
    return all(
        name in built
        and len(row.opt) == len(built[name]["min"])
        and all(
            low <= dim <= high
            for low, dim, high in zip(built[name]["min"], row.opt, built[name]["max"], strict=True)
        )
        for name, row in profile.items()
    )


def revoked(digest: str) -> InvalidRequest:
    """Return why an artifact that was revoked is not compared."""
    return InvalidRequest(
        f"The artifact {digest} was revoked.",
        code="comparison_revoked",
        why="What was revoked is run nowhere any more.",
        fix="Compare with an artifact that is published, or in quarantine.",
        artifact=digest,
    )


def _gone(digest: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"The engine of the artifact {digest} is not here to be run.",
        code="comparison_engine_gone",
        why=why,
        fix="Build it anew, and compare that artifact.",
        artifact=digest,
    )
