"""Build twelve real models for three targets and print what became of each, as a Markdown table.

Every cell is the work of the stages that a node runs (repair, check, compile and, where this
machine can, benchmark), each in a child process of its own; there is no farm around them.

    python -m bench.model_matrix [--only ID ...] [--json FILE] [--readme]

``--readme`` rewrites the table between the markers in README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginefarm.errors import Failure
from enginefarm.spec import BenchmarkOptions, BuildSpec, StageOptions
from enginefarm.state import Stage
from enginefarm.target import Target
from localfarm.models import MODELS, ShippedModel, repair_words
from tasks.recipe import key_of, recipe_for
from tasks.results import MODEL_FILE, MODEL_ROLES, Done, made_of
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
from workers.transfer import describe

TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_86", "tensorrt-rtx@sm_89")
FACTS = ("repair", "findings", "compile")
BENCHMARK = BenchmarkOptions(max_duration_ms=5000)
LEAST_MB = 0.1
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- model matrix: begin -->", "<!-- model matrix: end -->"
LIMITS = sandbox.Limits(running_s=600, silent_s=300)


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
    sample: ShippedModel, target: str, version: str, folder: Path, *, measured: bool
) -> dict[str, Any]:
    """Repair, check, compile and, if this machine can, measure one model for one target."""
    made = _Target(sample, Target.parse(target), version, folder)
    row: dict[str, Any] = {"model": sample.name, "target": target}
    for stage in (Stage.REPAIR, Stage.CHECK, Stage.COMPILE):
        ran = made.run(stage)
        row |= {f"{stage}_s": round(ran.seconds, 2)}
        if ran.failure is not None or ran.result is None:
            failure = ran.failure.model_dump(mode="json") if ran.failure else None
            return row | {"refused_at": stage, "failure": failure, "log": ran.log[-3000:]}
        row |= {name: ran.result.facts[name] for name in FACTS if name in ran.result.facts}
    if measured:
        ran = made.run(Stage.BENCHMARK)
        row["benchmark_failure"] = ran.failure.model_dump(mode="json") if ran.failure else None
        if ran.failure is not None or ran.result is None:
            row["log"] = ran.log[-3000:]
        else:
            row |= ran.result.facts
    return row


class _Target:
    """One model on its way through the stages, with the recipes that the farm would give it."""

    def __init__(self, sample: ShippedModel, target: Target, version: str, folder: Path) -> None:
        self._target, self._version, self._folder = target, version, folder
        original = sample.file()
        self._original = [ChildInput(role="model", name=MODEL_FILE, path=original)]
        file = {"digest": f"sha256:{sample.sha256}", "name": MODEL_FILE, "size": sample.size}
        self._model = {"digest": file["digest"], "files": [file]}
        self._spec = BuildSpec(
            model=f"sha256:{sample.sha256}",
            targets=[target],
            profiles=[sample.profile] if sample.profile else [],
            options=StageOptions(repair=sample.repair, benchmark=BENCHMARK),
            synthetic=sample.synthetic,
        )
        self._done: dict[Stage, Done] = {}
        self._made: dict[Stage, list[ChildInput]] = {}

    def run(self, stage: Stage) -> Ran:
        """Run a stage on what the stages before it have made."""
        made = made_of(self._done)
        recipe = recipe_for(stage, self._spec, self._target, self._version, self._model, made)
        ran = run_stage(stage, str(self._target), recipe, self._inputs(stage), self._folder)
        if ran.failure is None and ran.result is not None:
            outputs = [describe(row).model_dump(mode="json") for row in ran.result.outputs]
            result = {"outputs": outputs, "facts": ran.result.facts}
            self._done[stage] = Done(key_of(recipe), result)
            self._made[stage] = [
                ChildInput(role=row.role, name=row.name, path=row.path)
                for row in ran.result.outputs
            ]
        return ran

    def _inputs(self, stage: Stage) -> list[ChildInput]:
        written = [row for row in self._made.get(Stage.REPAIR, ()) if row.role in MODEL_ROLES]
        if stage is Stage.BENCHMARK:
            return self._original + self._made[Stage.COMPILE]
        return written or self._original


def cell(row: dict[str, Any]) -> str:
    """Return one table cell."""
    if "refused_at" in row:
        return f"refused at {row['refused_at']}: `{row['failure']['code']}`"
    text = f"built, {_megabytes(row)}, {row['compile']['seconds']:.1f} s{_repairs(row)}"
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


def readme_cell(row: dict[str, Any]) -> str:
    """Return one cell of the table in the README, without what differs from run to run."""
    if "refused_at" in row:
        return f"refused: `{row['failure']['code']}`"
    text = f"built, {_megabytes(row)}{_repairs(row)}"
    outputs = (row.get("accuracy") or {}).get("outputs", [])
    cosines = [output["cosine"] for output in outputs if output["cosine"] is not None]
    return f"{text}, cosine {min(cosines):.6f}" if cosines else text


def _megabytes(row: dict[str, Any]) -> str:
    size = row["compile"]["engine_bytes"] / 1e6
    return f"{size:.1f} MB" if size >= LEAST_MB else f"<{LEAST_MB} MB"


def _repairs(row: dict[str, Any]) -> str:
    names = [each["name"] for each in row["repair"]["passes"] if each["outcome"] == "applied"]
    return f", after {', '.join(names)}" if names else ""


def rewrite(page: Path, table: str) -> None:
    """Put a table between the markers of a page."""
    text = page.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    page.write_text(f"{before}{begin}\n{table}{end}{after}", "utf-8")


def _rows(names: list[str] | None) -> Iterator[tuple[ShippedModel, list[dict[str, Any]]]]:
    here = {backend.name: backend for backend in probe_in_child().backends}
    for sample in MODELS:
        if names and sample.name not in names:
            continue
        rows = []
        for text in TARGETS:
            target = Target.parse(text)
            backend = here[target.backend]
            with tempfile.TemporaryDirectory() as folder:
                measured = target.arch in backend.measures
                rows.append(build(sample, text, backend.version, Path(folder), measured=measured))
        yield sample, rows


def main(arguments: list[str]) -> int:
    """Print the table, or write it into the README."""
    parser = argparse.ArgumentParser(prog="bench.model_matrix", description=__doc__)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json", type=Path, help="write everything that was found there")
    parser.add_argument("--readme", action="store_true", help="rewrite the table in README.md")
    asked = parser.parse_args(arguments)
    head = "| model | " + " | ".join(TARGETS) + " |\n|" + " --- |" * (len(TARGETS) + 1) + "\n"
    print(head, end="")
    found, lines = [], []
    for sample, rows in _rows(asked.only):
        print(f"| {sample.name} | " + " | ".join(map(cell, rows)) + " |", flush=True)
        words = "".join(f" `{word}`" for word in repair_words(sample.repair))
        lines.append(f"| {sample.name}{words} | " + " | ".join(map(readme_cell, rows)) + " |\n")
        found += rows
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    if asked.readme:
        rewrite(README, head + "".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
