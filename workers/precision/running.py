"""Run versions of one model that are in memory, in ONNX Runtime on the CPU, graph as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from enginefarm.errors import FarmError
from workers.backends.base import MODEL_BYTES_IN_ONE_FILE, Array
from workers.backends.ort_session import SessionRunner, open_reference
from workers.measurement.accuracy import cosine
from workers.measurement.inputs import Feeds
from workers.precision import refusals

Outputs = dict[str, Array | None]
SIZE, LARGEST = "_size", "_largest"
DATA_FILE = "weights.bin"


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write a model, which keeps its weights; beyond what one file holds they go beside it."""
    outside = model.ByteSize() > MODEL_BYTES_IN_ONE_FILE
    with suppress(FileNotFoundError):
        (path.parent / DATA_FILE).unlink()
    onnx.save_model(model, str(path), save_as_external_data=outside, location=DATA_FILE)
    if outside:  # writing has moved the weights out of the model in memory
        onnx.external_data_helper.load_external_data_for_model(model, str(path.parent))


def opened(model: onnx.ModelProto, folder: Path) -> SessionRunner:
    """Open a model in memory.

    Raises:
        JobFailed: ONNX Runtime does not take it (code ``precision_not_run``).
    """
    path = folder / "candidate.onnx"
    save(model, path)
    with _blamed():
        return open_reference(path)


def outputs_of(runner: SessionRunner, feeds: Feeds) -> Outputs:
    """Return a model's outputs by name; what it does not take is not fed.

    Raises:
        JobFailed: ONNX Runtime fails on it (code ``precision_not_run``).
    """
    names = {view.name for view in runner.inputs}
    with _blamed():
        found = runner.run({name: array for name, array in feeds.items() if name in names})
    return {view.name: array for view, array in zip(runner.outputs, found, strict=True)}


@contextmanager
def _blamed() -> Iterator[None]:
    """Blame the model for what ONNX Runtime says of it: nobody has checked it before this stage."""
    try:
        yield
    except (FarmError, OSError, MemoryError):
        raise
    except Exception as error:  # the binding raises a class for each status
        raise refusals.not_run(str(error)) from error


def unused(model: onnx.ModelProto, word: str) -> str:
    """Return a word that no name of a model's tensors ends with."""
    graph = model.graph
    rows = [*graph.initializer, *graph.input, *graph.output]
    names = {each for node in graph.node for each in (*node.input, *node.output)}
    names |= {row.name for row in rows}
    while any(name.endswith(word) for name in names):
        word += "_"
    return word


def largest_values(
    model: onnx.ModelProto, names: Iterable[str], samples: Iterable[Feeds], folder: Path
) -> dict[str, float]:
    """Return the largest absolute value of tensors inside a model, over all samples.

    They are found inside the graph, so that no tensor is kept.
    """
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    names = list(names)
    size, largest = unused(model, SIZE), unused(model, LARGEST)
    for name in names:
        watched.graph.node.extend(
            [
                helper.make_node("Abs", [name], [name + size]),
                helper.make_node("ReduceMax", [name + size], [name + largest], keepdims=0),
            ]
        )
        watched.graph.output.append(onnx.ValueInfoProto(name=name + largest))
    runner = opened(watched, folder)
    found = dict.fromkeys(names, 0.0)
    for feeds in samples:
        values = outputs_of(runner, feeds)
        for name in names:
            value = values[name + largest]
            if value is not None and value.size:
                found[name] = max(found[name], float(value))
    return found


def likeness(wanted: Outputs, found: Outputs) -> float:
    """Return the cosine of the worst output; -1 where one is finite in one model only."""
    worst = 1.0
    for name, left in wanted.items():
        right = found.get(name)
        if left is None or right is None or left.dtype.kind != "f" or not left.size:
            continue
        one, other = left.astype(np.float64).ravel(), right.astype(np.float64).ravel()
        fine = np.isfinite(one)
        if not np.isfinite(other[fine]).all():
            return -1.0
        same = cosine(one[fine], other[fine]) if fine.any() else None
        worst = worst if same is None else min(worst, same)
    return worst
