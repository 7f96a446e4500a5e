"""Search a precision for real models on a farm of its own, and print what was found.

    python -m bench.searches [--only NAME ...] [--target TARGET ...] [--budget N] [--write]

Each model is calibrated on 24 samples and judged on 12 others. ``--write`` rewrites the tables of
what was searched, between the markers in docs/evidence/search.md.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.real_inputs import samples
from enginefarm.cli.figures import size
from enginefarm.client import FarmClient
from enginefarm.search import SearchSpec
from enginefarm.search_views import AccuracyOf, CandidateView, SearchView
from enginefarm.search_words import candidate_words
from localfarm.farm import LocalFarm
from localfarm.folder import Folder, read_client_file
from localfarm.models import shipped

SHAPES = {
    "magika": {"bytes": [1, 2048]},
    "rapidocr-rec": {"x": [1, 3, 48, 320]},
    "minilm-l3": {"input_ids": [1, 64], "attention_mask": [1, 64]},
}
MODELS = tuple(SHAPES)
TARGETS = ("onnxruntime@cpu", "tensorrt-rtx@sm_89")
CALIBRATED, JUDGED = 24, 12
BENCHMARK = {"min_duration_ms": 500, "max_duration_ms": 4000}
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "search.md"
BEGIN, END = "<!-- searches: begin -->", "<!-- searches: end -->"


def main() -> None:
    """Start a farm, search, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", metavar="NAME", default=list(MODELS))
    parser.add_argument("--target", nargs="*", metavar="TARGET", default=list(TARGETS))
    parser.add_argument("--write", action="store_true", help="rewrite the tables of the evidence")
    parser.add_argument("--budget", type=int, default=12, help="candidates of each search")
    parser.add_argument("--kinds", nargs="*", default=[], metavar="KIND", help="else all")
    parser.add_argument("--methods", nargs="*", default=[], metavar="METHOD", help="else all")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name) / "farm")
        with folder.held(), LocalFarm(folder, 60.0, lambda _: None).running():
            known = read_client_file(folder)
            with FarmClient(known["url"], known["key"]) as farm:
                for model, target in itertools.product(asked.only, asked.target):
                    space = {"kinds": asked.kinds, "methods": asked.methods}
                    found = searched(farm, model, target, asked.budget, Path(name), **space)
                    told = list(markdown(model, found))
                    sys.stdout.write("\n".join(told) + "\n")
                    sys.stdout.flush()
                    if asked.write:
                        write(told)


def searched(
    farm: FarmClient, name: str, target: str, budget: int, folder: Path, **space: list[str]
) -> SearchView:
    """Search for a model, and wait for the end; ``space`` bounds what is tried."""
    model = farm.models.upload(shipped(name).file())
    data = {
        role: farm.datasets.upload(_stored(folder / f"{name}-{role}.npz", samples(name, at, many)))
        for role, at, many in (("calibration", 1000, CALIBRATED), ("held-out", 0, JUDGED))
    }
    shapes = {row: dict.fromkeys(("min", "opt", "max"), it) for row, it in SHAPES[name].items()}
    build: dict[str, Any] = {
        "model": model.digest,
        "targets": [target],
        "profiles": [shapes],
        "evaluation": data["held-out"].digest,
        "options": {"benchmark": BENCHMARK},
    }
    body = {
        "build": build,
        "calibration": data["calibration"].digest,
        "require": [{"metric": "cosine", "at_least": 0.99}],
        "budget": {"candidates": budget},
        "space": {"layers": 24, **space},
    }
    begun = farm.searches.begin(SearchSpec.model_validate(body))
    return list(farm.searches.watch(begun.id))[-1]


def _stored(path: Path, arrays: dict[str, Any]) -> Path:
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    return path


def markdown(name: str, found: SearchView) -> Iterator[str]:
    """Yield what was found as Markdown."""
    took = (found.finished_at or found.created_at) - found.created_at
    yield f"### {name} for {found.target}"
    yield ""
    yield f"{found.verdict} It took {took.total_seconds():.0f} s."
    yield f"Ranges are of {CALIBRATED} samples, the cosine of {JUDGED} others."
    yield ""
    yield "| # | precision | cosine | P99 | memory | engine | meets all | front |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: | --- | --- |"
    for row in found.candidates:
        mark = "chosen" if row.number == found.chosen else "yes" if row.on_front else ""
        yield f"| {row.number} | {candidate_words(row)} | {_cells(row)} | {mark} |"
    yield ""


def _cells(row: CandidateView) -> str:
    told = row.outcome
    if told is None or told.artifact is None:
        code = told.failure.code if told is not None and told.failure is not None else "–"  # noqa: RUF001 - a dash on purpose
        return f"`{code}` | | | | no"
    exact = told.accuracy_of is AccuracyOf.ORIGINAL
    cosine = "exact" if exact else "" if told.cosine is None else f"{told.cosine:.5f}"
    cosine += " (file)" if told.accuracy_of is AccuracyOf.MODEL_FILE else ""
    p99 = "" if told.latency_p99_ms is None else f"{told.latency_p99_ms:.2f} ms"
    memory = "" if told.memory_bytes is None else size(told.memory_bytes)
    met = "yes" if told.met else "no"
    return f"{cosine} | {p99} | {memory} | {size(told.engine_bytes or 0)} | {met}"


def write(lines: list[str]) -> None:
    """Put a table where that of the last run stands."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    between, _, after = rest.partition(END)
    parts = [f"### {row}" for row in between.split("### ")[1:]]
    sections = {part.partition("\n")[0]: part for part in parts}
    sections[lines[0]] = "\n".join(lines)
    order = [f"### {name} for {target}" for name in MODELS for target in TARGETS]
    told = [f"{sections[name].strip()}\n" for name in order if name in sections]
    made = f"With ONNX Runtime {version('onnxruntime')}.\n"
    PAGE.write_text("\n".join([f"{before}{BEGIN}", made, *told, f"{END}{after}"]))


if __name__ == "__main__":
    main()
