"""Build twelve real models in int8 and fp16 for three targets, and say what came of each.

    python -m bench.precision_matrix [--only ID ...] [--json FILE] [--join FILE ...] [--page]

Inputs are made by ``bench.real_inputs``; calibration and held-out samples are different ones. Every
cell is the work of the stages that a node runs, each in a child process. ``--page`` writes the
tables between the markers in docs/evidence/precision.md; ``--join`` takes what earlier runs on this
machine have written with ``--json``, and makes nothing anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from bench import real_inputs
from bench.model_matrix import rewrite
from bench.precision_matrix.chain import Cell, Chains, Data
from bench.precision_matrix.speed import compared
from bench.precision_matrix.table import FLAT, KINDS, NONE, TARGETS, Built, Row, cosine, tables
from enginefarm.precision import PrecisionKind
from enginefarm.spec import FixedInput, RepairOptions
from enginefarm.target import Target
from localfarm.models import MODELS, ShippedModel, repair_words
from workers.backends.ort_session import open_reference
from workers.measurement.inputs import Feeds
from workers.measurement.original import Original
from workers.precision.samples import Samples
from workers.probe import probe_in_child

ROW = TypeAdapter(Row)
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "precision.md"
COUNTS = {
    "rapidocr-det": (16, 8),
    "rapidocr-rec": (16, 8),
    "light-resnet50": (4, 2),
    "light-squeezenet": (8, 4),
    "ddddocr-common-old": (32, 16),
    "minilm-l3": (16, 8),
}
ASKED = {"silero-ifless": RepairOptions(fix_inputs={"sr": FixedInput(value=16_000)})}
"""What is asked for beyond what a build in fp32 needs: its whole graph stands in a branch."""
USUAL = (96, 48)
"""Samples to calibrate with and held out; fewer of models that take long for each."""
HELD_OUT, CALIBRATION = 0, 100_000
"""The numbers of the first samples: what is held out was never calibrated with."""


def made(sample: ShippedModel, versions: dict[str, str], folder: Path) -> tuple[Row, list[Cell]]:
    """Build one model in every precision for every target."""
    asked = ASKED.get(sample.name, sample.repair)
    data = _data(sample.name, folder, asked)
    chains = Chains(sample, data, folder, versions, asked)
    row = Row(sample.name, " ".join(repair_words(asked)), data.counts)
    row.flat = _flat(sample, asked, data)
    cells = []
    cpu = Target.parse(TARGETS[0])
    plain = chains.build(cpu, PrecisionKind.AS_IS)
    for kind in KINDS:
        built = row.kinds[kind] = Built()
        for name in TARGETS:
            cell = chains.build(Target.parse(name), kind)
            cells.append(cell)
            built.targets[name] = _reason(cell)
            built.precision = cell.precision or built.precision
        here = chains.build(cpu, kind)
        if plain.engine is not None and here.engine is not None:
            built.speed = compared(plain.engine, here.engine, _feeds(plain.engine, sample, data))
    return row, cells


def _data(name: str, folder: Path, asked: RepairOptions) -> Data:
    counts = COUNTS.get(name, USUAL)
    data = Data(folder / "calibration.npz", folder / "held-out.npz", counts)
    for path, first, count in (
        (data.calibration, CALIBRATION, counts[0]),
        (data.held_out, HELD_OUT, counts[1]),
    ):
        rows = (
            {each: array for each, array in row.items() if each not in asked.fix_inputs}
            for row in real_inputs.stream(name, first)
        )
        real_inputs.write(path, rows, count)
    return data


def _feeds(model: Path, sample: ShippedModel, data: Data, most: int = 4) -> list[Feeds]:
    views = open_reference(model).inputs
    return list(islice(Samples(data.held_out, views, sample.profile), most))


def _flat(sample: ShippedModel, asked: RepairOptions, data: Data) -> bool:
    """Return whether the model answers the same to everything."""
    runner = Original(open_reference(sample.file()), asked.fix_inputs)
    samples = islice(Samples(data.held_out, runner.inputs, sample.profile), 4)
    found = [runner.run(feeds)[0] for feeds in samples]
    numbers = [row for row in found if row is not None and row.dtype.kind == "f"]
    return bool(numbers) and float(max(map(np.max, numbers)) - min(map(np.min, numbers))) < FLAT


def _reason(cell: Cell) -> str | None:
    if cell.refused_at is None:
        return None
    return f"{cell.refused_at}: `{cell.failure.code if cell.failure else 'no result'}`"


def _rows(names: list[str] | None, versions: dict[str, str]) -> Iterator[tuple[Row, list[Cell]]]:
    for sample in MODELS:
        if not names or sample.name in names:
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                row, cells = made(sample, versions, Path(folder))
                row.seconds = time.monotonic() - began
                yield row, cells


def _said(row: Row) -> str:
    told = []
    for kind, built in row.kinds.items():
        found = cosine(built.precision)
        outcomes = [name for name, reason in built.targets.items() if reason is None]
        shown = NONE if found is None else f"{found:.6f}"
        ratio = "" if built.speed is None else f", {built.speed.middle:.2f} {built.speed.label}"
        told.append(f"{kind} cosine {shown}, built for {len(outcomes)}{ratio}")
    return f"{row.model}: {'; '.join(told)}"


def _found(
    names: list[str] | None, versions: dict[str, str], file: Path | None
) -> list[dict[str, Any]]:
    """Make them all; tell of each, and write it, as soon as it is made."""
    found = []
    for row, cells in _rows(names, versions):
        print(_said(row), flush=True)
        found.append({"row": asdict(row), "cells": [asdict(cell) for cell in cells]})
        if file is not None:
            file.write_text(json.dumps(found, indent=1, default=str))
    return found


def _joined(files: list[Path]) -> list[dict[str, Any]]:
    return [each for file in files for each in json.loads(file.read_text())]


def _place(row: Row) -> int:
    return [each.name for each in MODELS].index(row.model)


def main(arguments: list[str]) -> int:
    """Print what became of each model, or write it into the page."""
    parser = argparse.ArgumentParser(prog="bench.precision_matrix", description=__doc__)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--json", type=Path, help="write everything that was found there")
    parser.add_argument("--join", type=Path, nargs="*", help="take these instead of making any")
    parser.add_argument("--page", action="store_true", help="rewrite the tables of the page")
    asked = parser.parse_args(arguments)
    versions = {backend.name: backend.version for backend in probe_in_child().backends}
    found = _joined(asked.join) if asked.join else _found(asked.only, versions, asked.json)
    rows = sorted((ROW.validate_python(each["row"]) for each in found), key=_place)
    told = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    where = f"Made in {sum(row.seconds for row in rows):.0f} s on {os.cpu_count()} cores"
    text = f"{where} ({platform.machine()}) with {told}.\n\n{tables(rows)}"
    print(f"\n{text}")
    if asked.page:
        rewrite(PAGE, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
