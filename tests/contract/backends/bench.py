"""Runs the stages of one backend in a child, as a node does, without a farm.

A runtime may crash, and only one logger fits a process: so nothing of it runs in the tests' own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import BackendDescription
from tests.contract.backends.nursery import nursery
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
Stop = Callable[[list[dict[str, Any]]], bool]
"""Told of all progress so far: whether the child shall end."""


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
    plugins: dict[str, list[Path]] = field(default_factory=dict)
    sandboxed: bool = False
    """Whether each child starts from nothing, as on a node; those that may be stopped always do."""

    def run(
        self,
        stage: Stage,
        model: Path,
        *,
        profiles: list[Any] | None = None,
        engine: Path | None = None,
        dataset: Path | None = None,
        datasets: Mapping[str, Path] | None = None,
        stop: Stop | None = None,
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
            plugins=self.plugins,
        )
        write_document(scratch / JOB_FILE, job)
        if stop is None and not self.sandboxed:
            return _in_nursery(scratch)
        return _in_sandbox(scratch, stop or (lambda _progress: False))


def _in_nursery(scratch: Path) -> Ran:
    log, said, progress = JobLog(1 << 20), scratch / "log", scratch / "progress"
    outcome = nursery().run(scratch, said, progress)
    log.write(said.read_bytes())
    lines = [json.loads(line) for line in progress.read_text().splitlines()]
    return Ran(outcome, _result(scratch), lines, log.render().decode(errors="replace"))


def _in_sandbox(scratch: Path, stop: Stop) -> Ran:
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
    return Ran(outcome, _result(scratch), progress, log.render().decode(errors="replace"))


def _result(scratch: Path) -> ChildResult | None:
    path = scratch / RESULT_FILE
    return ChildResult.model_validate_json(path.read_bytes()) if path.exists() else None


def findings(ran: Ran) -> list[dict[str, Any]]:
    """Return what a check found."""
    assert ran.result is not None, ran.log
    listed: Any = ran.result.facts["findings"]
    return list(listed)
