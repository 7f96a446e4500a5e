"""The repairs that a model may get before it is built, as data: what each is for, and its version.

The farm names them with their versions in a job's key; the node has the code. A pass that comes to
change more or less than before gets the next version.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from enginefarm.spec import Inexact, RepairOptions


class Exactness(StrEnum):
    """What a repair may do to results.

    ``structural`` leaves every computation as it is; ``exact`` rewrites some and must give the same
    results; ``measured`` changes them, and its report says by how much.
    """

    STRUCTURAL = "structural"
    EXACT = "exact"
    MEASURED = "measured"


@dataclass(frozen=True)
class Repair:
    """One pass. ``backends``: which need it; empty means all. ``asked``: only on request.

    ``precise``: every backend needs it where the model gets another precision, since what is cast
    or calibrated must not be hidden in a branch, nor quantized already.
    """

    name: str
    version: int
    exactness: Exactness
    mends: str
    backends: frozenset[str] = frozenset()
    asked: bool = False
    precise: bool = False


class PassId(BaseModel):
    """A pass as a key names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: int


WRITTEN_OUT = frozenset(
    {
        "BlackmanWindow",
        "CausalConvWithState",
        "CenterCropPad",
        "HammingWindow",
        "HannWindow",
        "LinearAttention",
        "NegativeLogLikelihoodLoss",
        "SoftmaxCrossEntropyLoss",
        "SwiGLU",
    }
)
"""Operators that ONNX itself defines by others, which compilers have."""

_TENSORRT = frozenset({"tensorrt-rtx", "tensorrt"})

REPAIRS: tuple[Repair, ...] = (
    Repair(
        "lower-ir-version",
        1,
        Exactness.STRUCTURAL,
        "A file format version that is newer than its operators need, and than runtimes take.",
    ),
    Repair(
        "weights-not-inputs",
        2,
        Exactness.STRUCTURAL,
        "Weights that are listed as inputs, too, as every file before IR version 4 had them; in"
        " later files these are inputs with defaults, and stay unless repair.drop_defaults is set.",
    ),
    Repair(
        "sort-nodes",
        1,
        Exactness.STRUCTURAL,
        "Nodes that stand before what they read, as some optimizers leave them.",
    ),
    Repair(
        "unique-names",
        1,
        Exactness.STRUCTURAL,
        "Nodes that have the name of another. Two tensors of one name are left for the check.",
    ),
    Repair(
        "raise-opset",
        1,
        Exactness.EXACT,
        "Operators of an opset before 7, which runtimes no longer take.",
    ),
    Repair(
        "fix-inputs",
        1,
        Exactness.EXACT,
        "An input that is always the same becomes a constant, or gets the shape it always has.",
        asked=True,
    ),
    Repair(
        "expand-operators",
        2,
        Exactness.EXACT,
        "An operator that the compiler lacks gives way to ONNX's own definition of it by others.",
        backends=_TENSORRT,
    ),
    Repair(
        "restore-float",
        1,
        Exactness.MEASURED,
        "Operators that quantize while they run compute in fp32, with the weights of the file.",
        backends=_TENSORRT,
        precise=True,
        asked=True,
    ),
    Repair(
        "unique-dimensions",
        2,
        Exactness.STRUCTURAL,
        "Axes that an exporter gave one placeholder name, such as ? or -1, get names of their own.",
        backends=_TENSORRT,
    ),
    Repair(
        "pin-dimensions",
        3,
        Exactness.EXACT,
        "In a model that branches, a dimension to which the profiles give one size is that number.",
        backends=_TENSORRT,
        precise=True,
    ),
    Repair(
        "fold-constants",
        3,
        Exactness.EXACT,
        "What is constant is computed once, and an If whose condition is known gives way to its"
        " branch.",
        backends=_TENSORRT,
        precise=True,
    ),
    Repair(
        "narrow-int64",
        1,
        Exactness.EXACT,
        "Weights and constants of int64 whose values fit become int32, for parsers that cut them;"
        " a tensor with a value that does not fit stays, and the report names it.",
        asked=True,
    ),
    Repair(
        "prune-unused",
        1,
        Exactness.STRUCTURAL,
        "Inputs that no node reads, and outputs that nobody wants, with what only leads to them.",
        asked=True,
    ),
)
"""Every pass, in the order in which they are tried."""


def passes_for(backend: str, asked: RepairOptions, *, precise: bool = False) -> list[PassId]:
    """Return the passes that a build for a backend tries, in order.

    ``precise`` says that the model gets another precision afterwards.
    """
    return [
        PassId(name=row.name, version=row.version)
        for row in REPAIRS
        if (not row.backends or backend in row.backends or (precise and row.precise))
        and _wanted(row, asked)
    ]


def _wanted(row: Repair, asked: RepairOptions) -> bool:
    if not row.asked:
        return True
    wanted = {
        "fix-inputs": bool(asked.fix_inputs),
        "narrow-int64": asked.narrow_int64,
        "prune-unused": asked.prune_unused or bool(asked.keep_outputs),
        "restore-float": Inexact.RESTORE_FLOAT in asked.allow,
    }
    return wanted[row.name]
