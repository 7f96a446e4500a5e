"""Measure how often the check is wrong: models that it refuses and that build, and the reverse.

Twelve real models and the hostile ones, for three targets: the pure rules, then the check stage,
then a real build whatever these said, and a run of the result (or, where this machine cannot run
it, of the original) at the ends of its profiles.

    python -m bench.preflight [--only NAME ...] [--hostile] [--target TARGET ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import forked
from bench.hostile import CASES
from bench.hostile.made import TARGETS
from enginefarm.errors import Failure
from enginefarm.finding import Finding, Severity
from enginefarm.preflight.check import check, facts_or_finding
from enginefarm.preflight.subject import Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.spec import Profile
from enginefarm.state import Stage
from enginefarm.target import Target
from localfarm.models import MODELS
from workers.childjob import ChildInput, ChildJob
from workers.probe import probe_in_child

POLICY = re.compile(r"profile_\w+|invalid_graph|empty_graph|unsupported_opset")
"""Refused for every target alike, whatever one runtime would take: profiles that contradict the
model or themselves, and graphs that break ONNX's own rules."""
UNCLAIMED = frozenset({"build_refused", "out_of_memory", "workspace_too_small", "child_crashed"})
"""Why a build may fail although the check has passed: nobody says that it could have been known."""


@dataclass(frozen=True)
class Sample:
    """A model on disk and its profiles."""

    name: str
    path: Path
    profiles: Sequence[Profile]


@dataclass(frozen=True)
class Row:
    """What was said of a model for a target, and what came of it: codes of errors, or None."""

    model: str
    target: str
    rules: str | None
    stage: str | None
    build: str | None
    said: str = ""

    def judged(self, who: str) -> str:
        """Return how one of the two checks did: right, false alarm, miss, policy or unclaimed."""
        told = self.rules if who == "rules" else self.stage
        if told is not None and self.build is None:
            return "policy" if POLICY.fullmatch(told) else "false alarm"
        if told is None and self.build is not None:
            return "unclaimed" if self.build in UNCLAIMED else "miss"
        return "right"


def samples(folder: Path, *, real: bool, onnx_cases: bool) -> Iterator[Sample]:
    """Give the real models, then the hostile ones; or the cases of ONNX itself."""
    for shipped in MODELS if real and not onnx_cases else ():
        yield Sample(shipped.name, shipped.file(), [shipped.profile] if shipped.profile else [])
    if onnx_cases:
        yield from _onnx_cases(folder)
        return
    for number, case in enumerate(CASES):
        yield Sample(case.name, case.write(folder / str(number)), case.profiles)


def _onnx_cases(folder: Path) -> Iterator[Sample]:
    """Give onnx's own cases for its operators: not all can be built, and no rule claims to know."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if case.model is not None:
            path = folder / f"{case.name}.onnx"
            path.write_bytes(case.model.SerializeToString())
            yield Sample(case.name, path, [])


def by_rules(sample: Sample, target: Target, version: str) -> str | None:
    """Return the first error of the pure rules."""
    facts = facts_or_finding(sample.path)
    if isinstance(facts, Finding):
        return facts.code
    seen = look_at_weights(sample.path, facts)
    found = check(Subject(facts, target, sample.profiles, version=version, seen=seen))
    return next((each.code for each in found if each.severity is Severity.ERROR), None)


def measure(sample: Sample, target: Target, version: str) -> Row:
    """Ask the rules and the check stage, then build whatever they said."""
    rules = by_rules(sample, target, version)
    with tempfile.TemporaryDirectory() as folder:
        stage = _stage(Stage.CHECK, sample, target, version, Path(folder) / "check")
        built = _stage(Stage.COMPILE, sample, target, version, Path(folder) / "compile")
        if built is None:
            built = _run(sample, Path(folder) / "compile" / "out", target)
    said = f"{built.message} {built.why}" if built else ""
    return Row(
        sample.name,
        str(target),
        rules,
        stage.code if stage else None,
        built.code if built else None,
        said,
    )


def _stage(
    stage: Stage, sample: Sample, target: Target, version: str, scratch: Path
) -> Failure | None:
    (scratch / "out").mkdir(parents=True)
    job = ChildJob(
        stage=stage,
        target=target,
        recipe={
            "backend_version": version,
            "profiles": [
                {name: shapes.model_dump() for name, shapes in profile.items()}
                for profile in sample.profiles
            ],
        },
        inputs=[ChildInput(role="model", name="model.onnx", path=sample.path)],
        out=scratch / "out",
    )
    return forked.run(job, scratch)[1]


def _run(sample: Sample, out: Path, target: Target) -> Failure | None:
    """Run what was built at the ends of the profiles; without a GPU, the original."""
    from workers.backends import trial
    from workers.backends.ort_session import open_reference

    path = next(out.iterdir()) if target.backend == "onnxruntime" else sample.path
    try:
        runner = open_reference(path)
    except Exception:  # noqa: BLE001 - the binding raises a class for each status
        return None  # a type that the processor does not have: the build is all there is
    for found in trial.trial_runs(runner, sample.profiles, target):
        if found.severity is Severity.ERROR:
            return Failure(code=found.code, blame="person", message=found.message)
    return None


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the lines that are printed at the end."""
    lines = []
    for who in ("rules", "stage"):
        judged = [row.judged(who) for row in rows]
        counts = {each: judged.count(each) for each in ("right", "policy", "unclaimed")}
        lines.append(
            f"{who}: {len(rows)} builds, false alarms {judged.count('false alarm')}, misses"
            f" {judged.count('miss')}, right {counts['right']}, by the farm's own rule"
            f" {counts['policy']}, unclaimed {counts['unclaimed']}"
        )
        lines += [
            f"  {verdict}: {row.model} for {row.target}: {row.rules} / {row.stage} / {row.build}"
            f" {row.said[:200]}"
            for row, verdict in zip(rows, judged, strict=True)
            if verdict != "right"
        ]
    return lines


def main(arguments: list[str]) -> int:
    """Print one line for each model and target, then the two rates."""
    parser = argparse.ArgumentParser(prog="bench.preflight", description=__doc__)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--hostile", action="store_true", help="only the hostile models")
    parser.add_argument(
        "--onnx-cases", action="store_true", help="1,900 small models of onnx's own, in an hour"
    )
    parser.add_argument("--target", nargs="*", default=list(TARGETS))
    parser.add_argument("--json", type=Path, help="write every row there")
    asked = parser.parse_args(arguments)
    here = {backend.name: backend.version for backend in probe_in_child().backends}
    _load_runtimes()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        wanted = {"real": not asked.hostile, "onnx_cases": asked.onnx_cases}
        for sample in samples(Path(folder), **wanted):
            if asked.only and sample.name not in asked.only:
                continue
            for text in asked.target:
                target = Target.parse(text)
                row = measure(sample, target, here[target.backend])
                rows.append(row)
                told = (row.model, row.target, row.rules, row.stage, row.build)
                print(" | ".join(str(each or "built") for each in told), flush=True)
    print(*summary(rows), sep="\n")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    wrong = {"false alarm", "miss"}
    return int(any(row.judged(who) in wrong for row in rows for who in ("rules", "stage")))


def _load_runtimes() -> None:
    """Import them once; each fork has them then."""
    from workers.backends import ort_session, tensorrt_rtx

    assert ort_session.CPU  # noqa: S101 - loaded for the forks
    tensorrt_rtx._import_runtime()  # noqa: SLF001 - the module alone, not a builder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
