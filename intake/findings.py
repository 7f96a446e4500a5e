"""What is asked of a reader and what it answers, in the form in which both cross a process.

An answer comes from a process that has read a stranger's file, so it is checked like one.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.errors import Failure
from enginefarm.onnx_types import ExternalRef
from enginefarm.tensor import StoredArray, TensorView

READY = b"ready\n"
"""The first line of a reader: from here on it is the file that is to blame."""

ANSWER = b"\nanswer "
"""What the line of the answer begins with; the interpreter may say things of its own around it."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Question(_Message):
    """What to read, on behalf of whom, and what may be spent on it.

    ``memory_bytes`` come on top of what the reader has when it begins, and of a model's own bytes,
    which are mapped.
    """

    what: Literal["model", "dataset"]
    parent: int
    memory_bytes: int
    cpu_s: int
    max_bytes: int
    max_expanded_bytes: int


class ModelFound(_Message):
    """What the farm keeps of a scanned model; see :class:`enginefarm.model_file.ModelScan`."""

    inputs: list[TensorView]
    outputs: list[TensorView]
    opsets: dict[str, int]
    node_count: int = Field(ge=1)
    external: list[ExternalRef]


class DatasetFound(_Message):
    """The arrays of a dataset and how many samples each of them has."""

    arrays: list[StoredArray]
    samples: int = Field(ge=1)


class Refused(_Message):
    """An error of the file, by its family in :mod:`enginefarm.errors`."""

    family: Literal["InvalidModel", "InvalidDataset", "TooLarge"]
    failure: Failure


class Answer(_Message):
    """Exactly one of these is given; ``crashed`` names an error that nobody foresaw.

    ``peak_bytes`` is the most memory that the reader has had.
    """

    model: ModelFound | None = None
    dataset: DatasetFound | None = None
    refused: Refused | None = None
    out_of_memory: bool = False
    crashed: str = ""
    peak_bytes: int = 0
