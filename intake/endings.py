"""How the end of a reader is told when it is no answer."""

from __future__ import annotations

from typing import Literal

from enginefarm.errors import FarmError, InvalidDataset, InvalidModel, Unavailable
from enginefarm.onnx_refusals import too_complex

What = Literal["model", "dataset"]


def exceeded(what: What, limit: str) -> FarmError:
    """Return the refusal of a file on which a reader passed a limit."""
    if what == "model":
        return too_complex(f"reading it took more than {limit}", exceeded=limit)
    return InvalidDataset(
        "The dataset takes more to read than the farm spends on one.",
        code="dataset_too_complex",
        why=f"Reading it took more than {limit}.",
        fix="Save fewer samples and arrays with numpy.savez; a few hundred samples are enough.",
        exceeded=limit,
    )


def crashed(what: What, how: str) -> FarmError:
    """Return the refusal of a file that made a reader end without an answer."""
    kind = InvalidModel if what == "model" else InvalidDataset
    return kind(
        f"The farm could not read the {what} to its end.",
        code="reader_crashed",
        why=f"The process that read it failed ({how}); nothing else of the farm was touched.",
        fix="Save the file again. If it is good elsewhere, this is a defect of the farm: report it "
        "with the file.",
    )


def not_started(why: str) -> Unavailable:
    """Return the error of a farm that cannot start a reader."""
    return Unavailable(
        "The farm could not start the process that reads uploads.",
        code="reader_unavailable",
        why=f"{why[:1].upper()}{why[1:]}.",
        fix="Try again in a moment; the cause is in the farm's log.",
    )


def busy(seconds: float) -> Unavailable:
    """Return the error of a farm whose readers are all at work."""
    return Unavailable(
        "The farm is reading other uploads.",
        code="readers_busy",
        why=f"No reader came free within {seconds:g} seconds.",
        fix="Send it again in a moment; the operator sets how many are read at once.",
    )
