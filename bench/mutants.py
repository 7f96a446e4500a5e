"""Break ONNX's own small models one way at a time; count what the rules pass and is refused.

Each mutant is one that an exporter's mistake could make: an attribute of another kind, an input too
many, an operator newer than the opset. Said of it are the pure rules, the ONNX checker and whether
ONNX Runtime loads it.

    python -m bench.mutants [--cases N] [--wrong FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import onnx

from bench.mutations import mutants
from enginefarm.finding import Finding, Severity
from enginefarm.preflight.check import check, facts_or_finding
from enginefarm.preflight.subject import Subject
from enginefarm.target import Target

_BEFORE_A_RUN = frozenset({"empty_graph", "shape_mismatch"})
"""Of what ONNX Runtime loads the farm refuses graphs without an output, and sizes that no run of it
could take."""


@dataclass(frozen=True)
class Row:
    """What was said of a mutant: the first error of the rules, of the checker, of the runtime."""

    case: str
    mutation: str
    rules: str | None
    checker: str | None
    runtime: str | None

    @property
    def judged(self) -> str:
        """Return whether the rules were right, missed what is refused, or refused what is taken."""
        refused = self.checker is not None or self.runtime is not None
        if (self.rules is not None) == refused:
            return "right"
        if self.rules in _BEFORE_A_RUN:
            return "refused before it runs"
        return "miss" if refused else "false alarm"


def look(case: tuple[str, bytes]) -> list[Row]:
    """Say what the rules, the checker and the runtime find in every mutant of a case."""
    name, data = case
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        return [
            Row(name, mutation, by_rules(path, made), by_checker(made), by_runtime(made))
            for mutation, made in mutants(onnx.ModelProto.FromString(data))
        ]


def by_rules(path: Path, made: onnx.ModelProto) -> str | None:
    """Return the first error of the pure rules, for ONNX Runtime."""
    path.write_bytes(made.SerializeToString())
    facts = facts_or_finding(path)
    if isinstance(facts, Finding):
        return facts.code
    found = check(Subject(facts, Target.parse("onnxruntime@cpu")))
    return next((each.code for each in found if each.severity is Severity.ERROR), None)


def by_checker(made: onnx.ModelProto) -> str | None:
    """Return what the ONNX checker has against a model."""
    try:
        onnx.checker.check_model(made)
    except Exception as error:  # noqa: BLE001 - the binding raises more kinds than it declares
        return str(error)[:300]
    return None


def by_runtime(made: onnx.ModelProto) -> str | None:
    """Return why ONNX Runtime does not load a model as it is written, in its own words."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the binding raises a class for each status
        return str(error)
    return None


def cases(most: int) -> list[tuple[str, bytes]]:
    """Return up to ``most`` of ONNX's cases for each operator, those of one node."""
    from onnx.backend.test.case.node import collect_testcases

    taken, found = Counter[str](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        op = case.model.graph.node[0].op_type
        if taken[op] < most and not case.model.graph.node[0].domain:
            taken[op] += 1
            found.append((case.name, case.model.SerializeToString()))
    return found


def main(arguments: list[str]) -> int:
    """Print how many mutants are judged how, and the misses by what was broken."""
    parser = argparse.ArgumentParser(prog="bench.mutants", description=__doc__)
    parser.add_argument("--cases", type=int, default=1, help="of each operator")
    parser.add_argument("--wrong", type=Path, help="write what was not right there")
    asked = parser.parse_args(arguments)
    wanted = cases(asked.cases)
    # A process for each case: what is malformed may end a runtime.
    with get_context("fork").Pool(1, maxtasksperchild=20) as pool:
        rows = [row for found in pool.imap(look, wanted) for row in found]
    print(f"{len(rows)} mutants of {len(wanted)} cases:", dict(Counter(row.judged for row in rows)))
    wrong = [row for row in rows if row.judged in {"miss", "false alarm"}]
    said = Counter((row.judged, _kind(row.mutation)) for row in wrong)
    for (judged, kind), count in said.most_common():
        print(f"  {judged}: {count} of {kind}")
    if asked.wrong:
        asked.wrong.write_text("\n".join(json.dumps(vars(row)) for row in wrong))
    return 0


def _kind(mutation: str) -> str:
    words = mutation.split()
    return " ".join([words[0], *words[2:]][:3]) if words[0] in {"attribute", "input"} else words[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
