"""The stage ``repair``: an ONNX model in, an ONNX model out, or nothing where nothing is to mend.

It never fails for what it cannot mend: the model goes on as it is, and ``check`` speaks.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from google.protobuf.message import DecodeError
from pydantic import TypeAdapter

from enginefarm.errors import InvalidModel, JobFailed
from enginefarm.fixed import require_outputs, with_fixed
from enginefarm.manifest import MODEL_TYPE, REPAIR_TYPE
from enginefarm.model_file import ModelScan, scan_model
from enginefarm.repair_report import Outcome, PassReport, RepairReport
from enginefarm.repairs import PassId
from enginefarm.spec import FixedInput, Profile, SyntheticInput
from enginefarm.state import Blame
from workers.backends.base import ProgressSink
from workers.childjob import ChildInput, ChildJob, ChildOutput, ChildResult
from workers.repair.base import Ground
from workers.repair.branches import count_nodes
from workers.repair.runner import Repaired, repair, require_passes

PASS_IDS: TypeAdapter[list[PassId]] = TypeAdapter(list[PassId])
PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])
FIXED: TypeAdapter[dict[str, FixedInput]] = TypeAdapter(dict[str, FixedInput])
SYNTHETIC: TypeAdapter[dict[str, SyntheticInput]] = TypeAdapter(dict[str, SyntheticInput])
MODEL_FILE, REPORT_FILE = "model.onnx", "repair.json"
FIX_INPUTS = "fix-inputs"


def repair_model(job: ChildJob, sink: ProgressSink) -> ChildResult:
    """Try the passes that the recipe names, and hand on what came of them."""
    model = job.one("model")
    if model is None:
        raise JobFailed("The job came without its model.", blame=Blame.FARM, code="input_missing")
    passes = require_passes(PASS_IDS.validate_python(job.recipe["passes"]))
    began = time.monotonic()
    try:
        scan = scan_model(model.path)
        loaded = onnx.load(str(model.path), load_external_data=False)
    except (InvalidModel, DecodeError):
        # Whether it is a model at all is for the check to say.
        return _told(job, _untouched(began))
    ground = _ground(job, model.path.parent, scan)
    data = [row for row in job.inputs if row.role == "external-data"]
    with tempfile.TemporaryDirectory(dir=job.out.parent, prefix="repair-") as folder:
        work = Path(folder)
        for row in data:
            _beside(row, work)
        state = repair(Repaired(loaded, model.path), passes, ground, work, sink)
        _require_fixed(state.reports)
        report = RepairReport(
            passes=state.reports,
            changed=state.path != model.path,
            fixed=dict(ground.fixed),
            nodes_before=count_nodes(loaded.graph),
            nodes_after=count_nodes(state.model.graph),
            seconds=time.monotonic() - began,
        )
        if not report.changed:
            return _told(job, report)
        return _written(job, report, state, data)


def _untouched(began: float) -> RepairReport:
    seconds = time.monotonic() - began
    return RepairReport(passes=[], changed=False, nodes_before=0, nodes_after=0, seconds=seconds)


def _ground(job: ChildJob, folder: Path, scan: ModelScan) -> Ground:
    asked: Any = job.recipe.get("asked") or {}
    fixed = FIXED.validate_python(asked.get("fix_inputs") or {})
    require_outputs(scan.outputs, asked.get("keep_outputs") or [])
    return Ground(
        backend=str(job.recipe["backend"]),
        folder=folder,
        declared=scan.inputs,
        inputs=with_fixed(scan.inputs, fixed),
        profiles=PROFILES.validate_python(job.recipe.get("profiles") or []),
        fixed=fixed,
        synthetic=SYNTHETIC.validate_python(job.recipe.get("synthetic") or {}),
        keep_outputs=asked.get("keep_outputs") or [],
        prune_inputs=bool(asked.get("prune_unused")),
        drop_defaults=bool(asked.get("drop_defaults")),
    )


def _require_fixed(reports: list[PassReport]) -> None:
    """Fail the job where what was asked for by name was not done: a build of it is not wanted."""
    for row in reports:
        if row.name == FIX_INPUTS and row.outcome in {Outcome.NOT_APPLIED, Outcome.UNDONE}:
            raise JobFailed(
                "The inputs could not be fixed as was asked.",
                blame=Blame.PERSON,
                code="fix_not_applied",
                why=f"{row.why[:1].upper()}{row.why[1:]}.",
                fix="Give a profile of sizes that the model runs at (--profile), or other values.",
            )


def _beside(row: ChildInput, work: Path) -> None:
    """Let external data lie beside the candidates, without a copy where the disk can do that."""
    try:
        os.link(row.path, work / row.name)
    except OSError:
        shutil.copyfile(row.path, work / row.name)


def _written(
    job: ChildJob, report: RepairReport, state: Repaired, data: list[ChildInput]
) -> ChildResult:
    goal = job.out / MODEL_FILE
    shutil.copyfile(state.path, goal)
    scan = scan_model(goal)
    needed = {reference.location for reference in scan.external}
    files = [ChildOutput(role="model", name=MODEL_FILE, path=goal, media_type=MODEL_TYPE)] + [
        ChildOutput(role="external-data", name=row.name, path=row.path, media_type=MODEL_TYPE)
        for row in data
        if row.name in needed
    ]
    interface = {
        "inputs": [row.model_dump(mode="json") for row in scan.inputs],
        "outputs": [row.model_dump(mode="json") for row in scan.outputs],
    }
    told = _told(job, report)
    return ChildResult(
        outputs=[*files, *told.outputs], facts={**told.facts, "interface": interface}
    )


def _told(job: ChildJob, report: RepairReport) -> ChildResult:
    path = job.out / REPORT_FILE
    path.write_text(report.model_dump_json())
    facts: dict[str, Any] = {
        "repair": report.model_dump(mode="json"),
        # Asked of the modules: with CUDA the distribution has another name than its module.
        "versions": {m.__name__: m.__version__ for m in (np, onnx, ort)},
    }
    return ChildResult(
        outputs=[ChildOutput(role="repair", name=REPORT_FILE, path=path, media_type=REPAIR_TYPE)],
        facts=facts,
    )
