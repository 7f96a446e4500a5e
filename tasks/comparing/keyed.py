"""The recipe of a comparison's job, from rows: which engines its two artifacts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from storage.database import Session
from storage.models import Build, Job
from tasks.comparing.recipe import compared_recipe
from tasks.comparing.subjects import files_of


def recipe_of(session: Session, build: Build, job: Job, its_jobs: Sequence[Job]) -> dict[str, Any]:
    """Return a job's recipe; the jobs before it must have run.

    Raises:
        ValueError: the build compares nothing.
    """
    spec = BuildSpec.model_validate(build.spec)
    if spec.compare is None:
        message = f"{build.id} compares nothing"
        raise ValueError(message)
    return compared_recipe(
        Stage(job.stage),
        spec,
        job.backend_version or "",
        files_of(session, build.tenant_id, spec.compare),
        next((row.key for row in its_jobs if row.stage == Stage.BENCHMARK), None),
    )
