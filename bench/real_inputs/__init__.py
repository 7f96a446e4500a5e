"""Inputs of the kind that the shipped models are made for, from what is on every machine.

Everything is seeded: a sample is named by a number, and the same number gives the same sample.
Samples come one at a time, so that no set of them is ever held.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from io import BufferedWriter
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.lib import format as npy

from bench.real_inputs.documents import file_bytes, tokens
from bench.real_inputs.scenes import flower, scene
from bench.real_inputs.speech import RATE, windows
from bench.real_inputs.text import gray, page
from localfarm.models import shipped
from workers.backends.base import Array
from workers.backends.ort_session import open_reference

Sample = dict[str, Array]
STRIDE = 3
"""Of the windows of an utterance every third is taken; neighbours tell little more."""


def _turned(number: int) -> Array:
    """Return a line of words, every other one upside down."""
    picture = page(number, 48, 192, scale=4, lines=1)
    return picture[:, ::-1, ::-1].copy() if number % 2 else picture


def _sentence(number: int) -> Sample:
    ids, there = tokens(number)
    return {"input_ids": ids, "attention_mask": there}


_MADE: dict[str, Callable[[int], Sample]] = {
    "rapidocr-det": lambda number: {"x": page(number, 320, 480, scale=3, lines=5)},
    "rapidocr-rec": lambda number: {"x": page(number, 48, 320, scale=4, lines=1)},
    "rapidocr-cls": lambda number: {"x": _turned(number)},
    "magika": lambda number: {"bytes": file_bytes(number)},
    "ddddocr-common-old": lambda number: {"input1": gray(number, 64, 160, scale=5)},
    "minilm-l3": _sentence,
    "light-resnet50": lambda number: {"gpu_0/data_0": scene(number)},
    "light-squeezenet": lambda number: {"data_0": scene(number)},
    "logreg-iris": lambda number: {"float_input": flower(number)},
}
_HEARD = ("silero-if", "silero-op15", "silero-ifless")


def stream(model: str, first: int) -> Iterator[Sample]:
    """Yield samples of what a shipped model is given, without end, from one number on."""
    if model in _HEARD:
        return _heard(model, first)
    return (_MADE[model](number) for number in count(first))


def _heard(model: str, first: int) -> Iterator[Sample]:
    """Yield windows of speech, each with the state that the model itself was left in before it."""
    runner = open_reference(shipped(model).file())
    for number in count(first):
        state: Array = np.zeros((2, 1, 128), np.float32)
        for place, window in enumerate(windows(number)):
            feeds = {"input": window[None], "state": state, "sr": np.array(RATE)}
            if place % STRIDE == 0:
                yield feeds | {"input": window}
            found = runner.run(feeds)[1]
            if found is None:
                message = f"{model} gives no state"
                raise ValueError(message)
            state = found


def samples(model: str, first: int, count: int) -> Sample:
    """Return so many samples, stacked along a first dimension."""
    rows = list(islice(stream(model, first), count))
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def write(path: Path, rows: Iterator[Sample], number: int) -> None:
    """Write so many samples as a dataset; one at a time is held."""
    with TemporaryDirectory(dir=path.parent) as folder, zipfile.ZipFile(path, "w") as stored:
        with ExitStack() as files:
            written: Mapping[str, Path] = _columns(Path(folder), rows, number, files)
        for name, file in written.items():
            stored.write(file, f"{name}.npy")


def _columns(
    folder: Path, rows: Iterator[Sample], number: int, files: ExitStack
) -> Mapping[str, Path]:
    """Write the arrays of a dataset, each into a file, a row at a time."""
    streams: dict[str, BufferedWriter] = {}
    for place, row in enumerate(islice(rows, number)):
        for name, array in row.items():
            if place == 0:
                head = {"descr": array.dtype.str, "fortran_order": False}
                head["shape"] = (number, *array.shape)
                streams[name] = files.enter_context((folder / f"{len(streams)}.npy").open("wb"))
                npy.write_array_header_1_0(streams[name], head)
            streams[name].write(np.ascontiguousarray(array).tobytes())
    return {name: Path(stream.name) for name, stream in streams.items()}
