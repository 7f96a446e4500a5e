"""One model on its way through repair, calibrate or cast, check and compile, without a farm.

A stage whose recipe has been answered is not run again, as in a farm: repaired models that are the
same share one calibration, and the architectures of a backend share one repair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.model_matrix import run_stage
from enginefarm.errors import Failure
from enginefarm.precision import Precision, PrecisionKind
from enginefarm.spec import BuildSpec, RepairOptions, StageOptions
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import Target
from localfarm.models import ShippedModel
from tasks.recipe import key_of, recipe_for
from tasks.results import MODEL_FILE, MODEL_ROLES, Done, made_of
from workers.childjob import ChildInput, ChildResult
from workers.transfer import describe


@dataclass(frozen=True)
class Data:
    """The datasets of one model: what ranges are taken from, and what is held out."""

    calibration: Path
    held_out: Path
    counts: tuple[int, int]


@dataclass
class Answer:
    """What a stage made, or why it made nothing."""

    key: str
    result: ChildResult | None
    failure: Failure | None
    log: str
    files: list[ChildInput] = field(default_factory=list)


@dataclass
class Cell:
    """What became of one model in one precision on one target."""

    refused_at: Stage | None = None
    failure: Failure | None = None
    log: str = ""
    engine: Path | None = None
    precision: dict[str, Any] | None = None


@dataclass
class Chains:
    """All chains of one model. ``versions``: of the backends, by name; ``repair``: as asked for."""

    sample: ShippedModel
    data: Data
    folder: Path
    versions: dict[str, str]
    repair: RepairOptions
    answers: dict[str, Answer] = field(default_factory=dict)

    def build(self, target: Target, kind: PrecisionKind) -> Cell:
        """Take the model through all stages up to the engine."""
        spec = self._spec(target, kind)
        done: dict[Stage, Done] = {}
        model = [ChildInput(role="model", name=MODEL_FILE, path=self.sample.file())]
        cell = Cell()
        for stage in _stages(spec):
            answer = self._answer(stage, spec, target, done, model)
            if answer.failure is not None or answer.result is None:
                return Cell(stage, answer.failure, answer.log[-3000:], None, cell.precision)
            told = [describe(row).model_dump(mode="json") for row in answer.result.outputs]
            done[stage] = Done(answer.key, {"outputs": told, "facts": answer.result.facts})
            model = [row for row in answer.files if row.role in MODEL_ROLES] or model
            if stage in PRECISION_STAGES:
                report: Any = answer.result.facts["precision"]
                cell.precision = report
            cell.engine = next((row.path for row in answer.files if row.role == "engine"), None)
        return cell

    def _answer(
        self,
        stage: Stage,
        spec: BuildSpec,
        target: Target,
        done: dict[Stage, Done],
        model: list[ChildInput],
    ) -> Answer:
        precise = stage in PRECISION_STAGES
        told = version("onnxruntime") if precise else self.versions[target.backend]
        recipe = recipe_for(stage, spec, target, told, self._original(), made_of(done))
        key = key_of(recipe)
        if key not in self.answers:
            data = [
                ChildInput(role=role, name=path.name, path=path)
                for role, path in (
                    ("calibration", self.data.calibration),
                    ("dataset", self.data.held_out),
                )
            ]
            place = self.folder / str(len(self.answers))
            ran = run_stage(stage, str(target), recipe, model + data * precise, place)
            rows = ran.result.outputs if ran.result else []
            files = [ChildInput(role=row.role, name=row.name, path=row.path) for row in rows]
            self.answers[key] = Answer(key, ran.result, ran.failure, ran.log, files)
        return self.answers[key]

    def _original(self) -> dict[str, Any]:
        digest = f"sha256:{self.sample.sha256}"
        file = {"digest": digest, "name": MODEL_FILE, "size": self.sample.size}
        return {"digest": digest, "files": [file]}

    def _spec(self, target: Target, kind: PrecisionKind) -> BuildSpec:
        plain = kind is PrecisionKind.AS_IS
        asked = {} if plain else {"calibration": digest_of_file(self.data.calibration)}
        return BuildSpec(
            model=f"sha256:{self.sample.sha256}",
            targets=[target],
            profiles=[self.sample.profile] if self.sample.profile else [],
            options=StageOptions(repair=self.repair),
            synthetic={
                name: row
                for name, row in self.sample.synthetic.items()
                if name not in self.repair.fix_inputs
            },
            precision=Precision.model_validate({"kind": kind} | asked),
            evaluation=digest_of_file(self.data.held_out),
        )


def _stages(spec: BuildSpec) -> Iterator[Stage]:
    yield Stage.REPAIR
    if spec.precision.stage is not None:
        yield spec.precision.stage
    yield from (Stage.CHECK, Stage.COMPILE)


def digest_of_file(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
