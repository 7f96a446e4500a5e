"""Runs the stages of one backend in a child, as a node does, without a farm.

A runtime may crash, and only one logger fits a process: so nothing of it runs in the tests' own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import BackendDescription
from workers import sandbox, verdict
from workers.childjob import (
    JOB_FILE,
    RESULT_FILE,
    ChildInput,
    ChildJob,
    ChildResult,
    write_document,
)
from workers.joblog import JobLog
from workers.probe import Probe, probe_in_child
from workers.sandbox import Outcome
from workers.settings import child_environment

LIMITS = sandbox.Limits(running_s=120, silent_s=120)
RANGE = {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}
PROFILES = [{"x": RANGE}]


@cache
def found() -> Probe:
    """Probe this machine once."""
    return probe_in_child()


@dataclass
class Ran:
    """A stage that ran."""

    outcome: Outcome
    result: ChildResult | None
    progress: list[dict[str, Any]]
    log: str

    @property
    def code(self) -> str | None:
        """The code of its failure."""
        if self.result is not None:
            return self.result.failure.code if self.result.failure else None
        return (verdict.failure_of(self.outcome, LIMITS) or verdict.no_result(self.outcome)).code


@dataclass
class Bench:
    """Runs the stages of one backend on a model."""

    backend: BackendDescription
    arch: str
    folder: Path
    count: int = 0
    pythons: Mapping[str, Path] = field(default_factory=dict)

    def run(
        self,
        stage: Stage,
        model: Path,
        *,
        profiles: list[Any] | None = None,
        engine: Path | None = None,
        dataset: Path | None = None,
        datasets: Mapping[str, Path] | None = None,
        stop: Callable[[list[dict[str, Any]]], bool] = lambda _progress: False,
        **recipe: Any,  # noqa: ANN401 - any field of a recipe
    ) -> Ran:
        """Run a stage in a child."""
        self.count += 1
        scratch = self.folder / f"{self.count}-{stage}"
        (scratch / "out").mkdir(parents=True)
        inputs = [ChildInput(role="model", name="model.onnx", path=model)]
        if engine is not None:
            inputs.append(ChildInput(role="engine", name=engine.name, path=engine))
        if dataset is not None:
            inputs.append(ChildInput(role="dataset", name=dataset.name, path=dataset))
        for role, path in (datasets or {}).items():
            inputs.append(ChildInput(role=role, name=f"{role}.npz", path=path))
        job = ChildJob(
            stage=stage,
            target=Target.parse(f"{self.backend.name}@{self.arch}"),
            recipe={
                "backend_version": self.backend.version,
                "profiles": PROFILES if profiles is None else profiles,
                **recipe,
            },
            inputs=inputs,
            out=scratch / "out",
            pythons=dict(self.pythons),
        )
        write_document(scratch / JOB_FILE, job)
        return _in_child(scratch, stop)


def _in_child(scratch: Path, stop: Callable[[list[dict[str, Any]]], bool]) -> Ran:
    log, progress = JobLog(1 << 20), list[dict[str, Any]]()
    outcome = sandbox.run(
        sandbox.child_command(scratch),
        cwd=scratch,
        environment=child_environment(scratch),
        limits=LIMITS,
        log=log,
        on_progress=lambda said: progress.append(dict(said)),
        stop=lambda: "cancelled" if stop(progress) else None,
    )
    path = scratch / RESULT_FILE
    result = ChildResult.model_validate_json(path.read_bytes()) if path.exists() else None
    return Ran(outcome, result, progress, log.render().decode(errors="replace"))


def findings(ran: Ran) -> list[dict[str, Any]]:
    """Return what a check found."""
    assert ran.result is not None, ran.log
    listed: Any = ran.result.facts["findings"]
    return list(listed)
