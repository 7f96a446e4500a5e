"""What each layer of an int8 model costs, as it is told in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.cli.grid import NONE, Column, Grid
from enginefarm.precision_report import PrecisionReport
from enginefarm.rounding import rounded
from enginefarm.sensitivity_report import SensitivityReport

_SHOWN = 10
_NUMBERS = ("loss of cosine", "output SNR dB", "estimate dB", "weights", "reads", "writes")


def layers_grid(told: SensitivityReport) -> Grid:
    """Return the costliest layers."""
    heads = (Column("layer in int8", head=True), Column("operator"))
    grid = Grid((*heads, *(Column(name, right=True) for name in _NUMBERS)))
    for row in told.layers[:_SHOWN]:
        costs = (row.cosine_loss, row.snr_db, row.sqnr_db)
        parts = (row.weight_sqnr_db, row.input_sqnr_db, row.output_sqnr_db)
        shown = (NONE if value is None else rounded(value) for value in (*costs, *parts))
        grid.add(row.node, row.operator, *shown)
    return grid


def layer_notes(told: PrecisionReport | None) -> Iterator[str]:
    """Yield in words what layers cost: how many were tried, and what keeping some would give."""
    if told is None:
        return
    if told.sensitivity_reason is not None:
        yield f"layers    what they cost is not known: {told.sensitivity_reason}"
    found = told.sensitivity
    if found is None:
        return
    counts = f"{found.tried} of {found.layers_count} were tried on {found.trial_samples} samples"
    yield f"layers    {counts}: {found.how}"
    steps = ", ".join(f"{row.kept}: {rounded(row.cosine)}" for row in found.steps)
    yield f"layers    cosine if the costliest so many stay as they came: {steps}"


def costliest(told: PrecisionReport | None) -> Iterator[str]:
    """Yield the costliest layers in one line."""
    found = None if told is None else told.sensitivity
    if found is not None and found.layers:
        rows = [
            row.node if row.cosine_loss is None else f"{row.node} {row.cosine_loss:.2g}"
            for row in found.layers[:3]
        ]
        yield f"int8 costs most in {', '.join(rows)} (loss of cosine)"
