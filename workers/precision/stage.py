"""The stages ``cast`` and ``calibrate``: an ONNX model in, one in another precision out.

What a tool says it did is not believed: what it wrote must differ, load, and have the interface of
the model that came; and it is run against that model before it is handed on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from google.protobuf.message import DecodeError
from pydantic import TypeAdapter

from enginefarm import calibration_findings as say
from enginefarm.accuracy_report import AccuracyReport
from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, Severity
from enginefarm.manifest import MODEL_TYPE, PRECISION_TYPE
from enginefarm.model_file import ModelScan, scan_model
from enginefarm.precision import PrecisionKind
from enginefarm.precision_report import LABEL_SYNTHETIC, PrecisionRecipe, PrecisionReport
from enginefarm.spec import Profile, SyntheticInput
from enginefarm.state import Blame
from workers.backends.base import ProgressSink
from workers.childjob import ChildInput, ChildJob, ChildOutput, ChildResult
from workers.measurement import inputs
from workers.measurement.inputs import Feeds
from workers.precision import checks, plugin_types, refusals
from workers.precision.changing import Changed, Work, require_plain
from workers.precision.running import DATA_FILE, opened, save
from workers.precision.samples import Samples
from workers.precision.tools.base import Tool
from workers.precision.tools.registry import open_tool
from workers.precision.truth import model_accuracy

PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])
SYNTHETIC: TypeAdapter[dict[str, SyntheticInput]] = TypeAdapter(dict[str, SyntheticInput])
FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])
MODEL_FILE, REPORT_FILE = "model.onnx", "precision.json"
MADE_UP, TRIED = 8, 4
MOST_KEPT = 128
"""Nodes that stayed in fp32 and are told of by name."""


def change_precision(job: ChildJob, sink: ProgressSink) -> ChildResult:
    """Write the model in the precision that the recipe names, and say how good it is."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=job.out.parent, prefix="precision-") as folder:
        for part in ("before", "after"):
            (Path(folder) / part).mkdir()
        run = _Run(job, sink, Path(folder))
        tool = run.tool
        require_plain(run.model)
        findings = run.findings()
        changed = run.changed()
        files = run.written(changed)
        accuracy, reason = run.accuracy(changed)
        cost = changed.sensitivity
        report = PrecisionReport(
            recipe=run.recipe,
            nodes=changed.nodes,
            changed=changed.changed,
            kept=changed.kept[:MOST_KEPT],
            kept_count=len(changed.kept),
            data=None if run.look is None else checks.data_report(run.look, run.held_out),
            findings=findings,
            labels=run.labels(),
            model_accuracy=accuracy,
            model_accuracy_reason=reason,
            sensitivity=None if isinstance(cost, str) else cost,
            sensitivity_reason=cost if isinstance(cost, str) else None,
            model_bytes=sum(row.path.stat().st_size for row in files),
            seconds=time.monotonic() - began,
        )
        return _told(job, report, files, tool.versions())


@dataclass
class _Run:
    """One run of a stage. What is read twice is read once."""

    job: ChildJob
    sink: ProgressSink
    folder: Path

    @cached_property
    def tool(self) -> Tool:
        """What writes the model, in the version that the key names."""
        return open_tool(self.recipe, self.job.pythons, plugins=bool(self.job.plugins))

    @cached_property
    def recipe(self) -> PrecisionRecipe:
        """How the precision is to be had."""
        told: Any = self.job.recipe["precision"]
        return PrecisionRecipe.model_validate(
            {**told, "tool_version": self.job.recipe["tool_version"]}
        )

    @cached_property
    def source(self) -> ChildInput:
        """The model's file."""
        model = self.job.one("model")
        if model is None:
            raise JobFailed(
                "The job came without its model.", blame=Blame.FARM, code="input_missing"
            )
        return model

    @cached_property
    def scan(self) -> ModelScan:
        """What the file says of itself."""
        return scan_model(self.source.path)

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model, its external data in memory."""
        self.sink.report(None, "reading the model")
        try:
            model = onnx.load(str(self.source.path))
        except DecodeError as error:
            raise refusals.not_loadable(self.recipe.kind, str(error)) from error
        if self.job.plugins:
            plugin_types.declare(model, self.folder / "before")
        return model

    @cached_property
    def profiles(self) -> list[Profile]:
        """The shapes that the engine is built for."""
        return PROFILES.validate_python(self.job.recipe.get("profiles") or [])

    @property
    def profile(self) -> Profile | None:
        """The first profile."""
        return self.profiles[0] if self.profiles else None

    def samples(self, role: str, most: int | None = None) -> Samples | None:
        """Return the samples of a dataset that came with the job, if it came."""
        file = self.job.one(role)
        return None if file is None else Samples(file.path, self.scan.inputs, self.profile, most)

    @cached_property
    def calibration(self) -> Samples | None:
        """What ranges are taken from."""
        return self.samples("calibration", self.recipe.samples)

    @cached_property
    def look(self) -> checks.Look | None:
        """What was seen of the calibration data."""
        if self.calibration is None:
            return None
        self.sink.report(None, "looking at the calibration data")
        return checks.look_at(self.calibration, self.profiles)

    @cached_property
    def held_out(self) -> checks.Look | None:
        """What was seen of the evaluation data."""
        samples = self.samples("dataset", say.MOST_LOOKED_AT)
        return None if samples is None else checks.look_at(samples, self.profiles)

    @cached_property
    def made_up(self) -> list[Feeds]:
        """Seeded synthetic samples."""
        wanted = SYNTHETIC.validate_python(self.job.recipe.get("synthetic") or {})
        seed: Any = self.job.recipe.get("seed") or 0
        rng = np.random.default_rng(int(seed))
        views = self.scan.inputs
        return [inputs.synthetic(views, self.profile, wanted, rng) for _ in range(MADE_UP)]

    def findings(self) -> list[Finding]:
        """Return what to know of the calibration data; refuse it if it is of no use."""
        if self.look is None or self.calibration is None:
            return []
        found = checks.judge(self.look, self.held_out)
        found += say.rounded(self.calibration.rounded())
        errors = [row for row in found if row.severity is Severity.ERROR]
        if errors:
            raise refusals.data_refused(found, errors)
        return found

    def labels(self) -> list[str]:
        """Return the labels that the result carries."""
        noisy = self.look is not None and checks.noisy(self.look, self.held_out)
        return [LABEL_SYNTHETIC] if noisy else []

    def changed(self) -> Changed:
        """Return the model in the other precision."""
        every: Iterable[Feeds] = self.calibration or self.made_up
        few = list(islice(every, TRIED))
        work = Work(self.model, self.recipe, few, every, self.folder, self.alive)
        return self.tool.change(work)

    def alive(self, phase: str = "working", detail: str = "") -> None:
        """Say that the work goes on, and stop where the job was cancelled."""
        self.sink.report(None, phase, detail)
        if self.sink.stopping:
            raise JobFailed("The job was stopped.", blame=Blame.NODE, code="cancelled")

    def written(self, changed: Changed) -> list[ChildOutput]:
        """Write the model, and see whether it is one, with the interface it had."""
        goal = self.job.out / MODEL_FILE
        save(changed.model, goal)
        try:
            onnx.checker.check_model(str(goal))
            if self.recipe.kind is not PrecisionKind.BF16:  # which no CPU runs
                opened(changed.model, self.folder / "after")
        except Exception as error:
            raise refusals.not_loadable(self.recipe.kind, str(error)) from error
        difference = _difference(self.scan, scan_model(goal))
        if difference is not None:
            raise refusals.interface_differs(difference)
        paths = [path for path in (goal, goal.parent / DATA_FILE) if path.exists()]
        return [
            ChildOutput(
                role="model" if path == goal else "external-data",
                name=path.name,
                path=path,
                media_type=MODEL_TYPE,
            )
            for path in paths
        ]

    def accuracy(self, changed: Changed) -> tuple[AccuracyReport | None, str | None]:
        """Return how far the result is from the model, or why that is not known."""
        held_out = self.samples("dataset")
        told = self.job.recipe.get("evaluation")
        seed = self.job.recipe.get("seed") or 0

        found = model_accuracy(
            self.model,
            changed.model if changed.rounded is None else changed.rounded,
            held_out or self.made_up,
            f"dataset {told}" if held_out else f"synthetic, seed {seed}",
            synthetic=held_out is None,
            folder=self.folder,
            alive=self.alive,
        )
        if found is None:
            return None, "no output is a tensor of numbers"
        self._require_finite(found)
        if changed.rounded is None:
            return found, None
        note = (
            f"each value is rounded to {self.recipe.kind} and summed up in fp32, as a GPU does;"
            " ONNX Runtime's own half kernels on the CPU are not used"
        )
        return found.model_copy(update={"notes": [*found.notes, note]}), None

    def _require_finite(self, found: AccuracyReport) -> None:
        bad = [r.output for r in found.outputs if r.nonfinite_engine > r.nonfinite_reference]
        if bad:
            raise refusals.overflows(bad, self.recipe.kind)


def _difference(before: ModelScan, after: ModelScan) -> str | None:
    """Say in what two interfaces differ; None if in nothing."""
    for what, one, other in (
        ("inputs", before.inputs, after.inputs),
        ("outputs", before.outputs, after.outputs),
    ):
        if one != other:
            return f"Its {what} are {_told_views(other)} instead of {_told_views(one)}"
    return None


def _told_views(views: Sequence[Any]) -> str:
    return ", ".join(f"{row.name} {row.dtype} {row.shape}" for row in views)[:400]


def _told(
    job: ChildJob,
    report: PrecisionReport,
    files: list[ChildOutput],
    versions: Mapping[str, str],
) -> ChildResult:
    path = job.out / REPORT_FILE
    path.write_text(report.model_dump_json())
    scan = scan_model(job.out / MODEL_FILE)
    facts: dict[str, Any] = {
        "precision": report.model_dump(mode="json"),
        "interface": {
            "inputs": [row.model_dump(mode="json") for row in scan.inputs],
            "outputs": [row.model_dump(mode="json") for row in scan.outputs],
        },
        # Asked of the modules: with CUDA the distribution has another name than its module.
        "versions": dict(versions) | {m.__name__: m.__version__ for m in (np, onnx, ort)},
    }
    told = ChildOutput(role="precision", name=REPORT_FILE, path=path, media_type=PRECISION_TYPE)
    return ChildResult(outputs=[*files, told], facts=facts)
